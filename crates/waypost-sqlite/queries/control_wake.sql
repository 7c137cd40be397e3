-- deliver: mail makes an unowned execution ready if it gets through. Served by the key of control.
UPDATE control SET ready = 1 WHERE execution = ?1 AND owner IS NULL AND wakes_from <= ?2
