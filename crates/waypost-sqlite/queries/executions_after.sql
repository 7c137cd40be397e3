-- inspect: the next executions that have a log, by number. Leaps from one to the next, however long
-- their logs are. Served by frames_by_execution.
WITH RECURSIVE next (execution) AS (
    SELECT min(execution) FROM frames WHERE execution > ?1
    UNION ALL
    SELECT (SELECT min(execution) FROM frames WHERE execution > next.execution)
    FROM next WHERE next.execution IS NOT NULL
    LIMIT ?2
)
SELECT execution FROM next WHERE execution IS NOT NULL
