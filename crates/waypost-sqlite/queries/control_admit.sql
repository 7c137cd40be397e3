-- append, inspect: an execution that holds a permit is ready, unless an instance owns or has quarantined
-- it. Served by the key of control.
UPDATE control SET ready = 1, held = NULL, wakes_from = 0
WHERE execution = ?1 AND owner IS NULL AND wakes_from < 2
