-- rebuild: the next executions that have a log. Leaps from one to the next, however many frames they have.
-- Served by the key of frames.
WITH RECURSIVE next (execution) AS (
    SELECT (SELECT min(execution) FROM frames WHERE execution > $1)
    UNION ALL
    SELECT (SELECT min(frames.execution) FROM frames WHERE frames.execution > next.execution)
    FROM next WHERE next.execution IS NOT NULL
)
SELECT execution FROM next WHERE execution IS NOT NULL LIMIT $2
