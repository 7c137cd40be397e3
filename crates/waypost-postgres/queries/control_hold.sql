-- hold: sets an execution of this owner aside until it is resumed by mail that is not there yet. Served
-- by the key of control and inbox_by_execution.
UPDATE control SET owner = NULL, ready = false, next_due = NULL, held = $3, wakes_from = 2,
    crashes = 0, doubt = false,
    deaf_to = ARRAY (SELECT i.id FROM inbox AS i WHERE i.execution = $1)
WHERE execution = $1 AND owner = $2
