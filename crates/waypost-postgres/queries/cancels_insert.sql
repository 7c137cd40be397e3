-- tasks: what workers are to stop. What nobody has heard of for an hour goes: its worker is gone. Served
-- by the key of task_cancels and task_cancels_by_time.
WITH stale AS (
    DELETE FROM task_cancels WHERE at < (SELECT waypost_now()) - 3600000
)
INSERT INTO task_cancels (worker, token, at)
SELECT c.worker, c.token, (SELECT waypost_now())
FROM unnest($1::uuid[], $2::uuid[]) AS c (worker, token)
ORDER BY c.worker, c.token
ON CONFLICT DO NOTHING
