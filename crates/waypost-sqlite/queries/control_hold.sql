-- hold: sets an execution of this owner aside until it is resumed. Served by the key of control.
UPDATE control SET owner = NULL, ready = 0, next_due = NULL, held = ?2, wakes_from = ?3,
    crashes = 0, doubt = 0
WHERE execution = ?1 AND owner = ?4
