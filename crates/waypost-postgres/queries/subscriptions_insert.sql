-- append: executions wait for signals by their keys. Served by the key of subscriptions.
INSERT INTO subscriptions (execution, wait, which, topic)
SELECT s.execution, s.wait, s.which, s.topic
FROM unnest($1::int8[], $2::int8[], $3::int4[], $4::bytea[]) AS s (execution, wait, which, topic)
ORDER BY s.execution, s.wait, s.which
ON CONFLICT DO NOTHING
