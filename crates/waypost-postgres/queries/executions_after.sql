-- inspect: the next executions that have a log, with the time of their last frames. Leaps from one to the
-- next, however many frames they have. Served by the key of frames.
WITH RECURSIVE next (execution) AS (
    SELECT (SELECT min(execution) FROM frames WHERE execution > $1)
    UNION ALL
    SELECT (SELECT min(f.execution) FROM frames AS f WHERE f.execution > next.execution)
    FROM next WHERE next.execution IS NOT NULL
)
SELECT next.execution, (SELECT f.at FROM frames AS f WHERE f.execution = next.execution
                        ORDER BY f.first_seq DESC LIMIT 1)
FROM next WHERE next.execution IS NOT NULL LIMIT $2
