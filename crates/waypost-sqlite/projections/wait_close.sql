-- projector: a node's wait is over, or all waits of an execution where ?2 is NULL. Served by
-- wait_rows_open.
UPDATE wait_rows SET status = ?3, closed_at = ?4
WHERE execution = ?1 AND status = 0 AND (?2 IS NULL OR path = ?2)
