-- append: executions wait for signals by their keys. What others got before is not for them. Served by the key of
-- subscriptions and by published_by_topic.
INSERT INTO subscriptions (execution, wait, which, topic, opened_at, turn)
SELECT s.execution, s.wait, s.which, s.topic, (SELECT waypost_now()),
    coalesce((SELECT max(p.turn) FROM published AS p WHERE p.topic = s.topic AND NOT p.taken), 0)
FROM unnest($1::int8[], $2::int8[], $3::int4[], $4::bytea[]) AS s (execution, wait, which, topic)
ORDER BY s.execution, s.wait, s.which
ON CONFLICT DO NOTHING
