-- append: signals that were on their way arrived, and waits for them are still open. Locked in the order in
-- which signals are routed. Served by the key of subscriptions.
WITH arrived AS MATERIALIZED (
    SELECT s.execution, s.wait, s.which FROM subscriptions AS s
    WHERE s.execution = ANY ($1::int8[])
      AND (s.execution, s.fed) IN (
          SELECT m.execution, m.message FROM unnest($1::int8[], $2::bytea[]) AS m (execution, message))
    ORDER BY s.execution, s.wait, s.which
    FOR UPDATE OF s
)
UPDATE subscriptions AS s SET fed = NULL FROM arrived AS a
WHERE s.execution = a.execution AND s.wait = a.wait AND s.which = a.which
