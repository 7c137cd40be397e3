-- define, arrive: an item that waited became a dead letter, or was skipped. Served by the unique index of
-- trigger_fires.
UPDATE trigger_fires SET outcome = ?3, reason = ?4 WHERE trigger = ?1 AND item = ?2
