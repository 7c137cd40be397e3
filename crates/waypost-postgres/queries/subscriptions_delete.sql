-- append: such waits are over. Locked in the order in which signals are routed, so that the two cannot
-- deadlock. Served by the key of subscriptions.
WITH over AS MATERIALIZED (
    SELECT s.execution, s.wait, s.which FROM subscriptions AS s
    WHERE (s.execution, s.wait, s.which) IN (
        SELECT o.execution, o.wait, o.which
        FROM unnest($1::int8[], $2::int8[], $3::int4[]) AS o (execution, wait, which))
    ORDER BY s.execution, s.wait, s.which
    FOR UPDATE OF s
)
DELETE FROM subscriptions AS s USING over AS o
WHERE s.execution = o.execution AND s.wait = o.wait AND s.which = o.which
