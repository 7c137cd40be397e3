-- append: an execution waits for a signal by its key. What others got before is not for it. Served by the key of
-- subscriptions and by published_by_topic.
INSERT INTO subscriptions (execution, wait, which, topic, opened_at, turn)
VALUES (?1, ?2, ?3, ?4, ?5,
    ifnull((SELECT max(p.turn) FROM published AS p WHERE p.topic = ?4 AND NOT p.taken), 0))
ON CONFLICT DO NOTHING
