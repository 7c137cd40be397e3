-- tasks: withdraws tasks that no worker has taken. Locked rows are skipped: a task that is being
-- taken stays taken. Served by task_offers_by_attempt.
WITH idle AS MATERIALIZED (
    SELECT t.id FROM unnest($1::int8[], $2::int8[], $3::bytea[]) AS o (execution, attempt, path)
    JOIN task_offers AS t
      ON t.execution = o.execution AND t.attempt = o.attempt AND sha256(t.path) = sha256(o.path)
    FOR UPDATE OF t SKIP LOCKED
)
DELETE FROM task_offers AS t USING idle WHERE t.id = idle.id
