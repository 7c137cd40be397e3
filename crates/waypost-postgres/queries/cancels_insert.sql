-- tasks: cancellations for workers; returns the instances that the live ones among those workers
-- talk to. Cancellations older than an hour are deleted: their workers are gone. Served by the keys
-- of task_cancels and workers, and by task_cancels_by_time.
WITH stale AS (
    DELETE FROM task_cancels WHERE at < (SELECT waypost_now()) - 3600000
), told AS (
    INSERT INTO task_cancels (worker, token, at)
    SELECT c.worker, c.token, (SELECT waypost_now())
    FROM unnest($1::uuid[], $2::uuid[]) AS c (worker, token)
    ORDER BY c.worker, c.token
    ON CONFLICT DO NOTHING
)
SELECT DISTINCT through FROM workers
WHERE id = ANY ($1::uuid[]) AND alive_until > (SELECT waypost_now())
