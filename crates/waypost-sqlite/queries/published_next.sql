-- append, publish: the next signal of a topic that nothing has got, and the turn that it would have. Served by
-- published_by_topic and subscriptions_by_topic.
SELECT id, message, actor, body, from_outside, expires_at, published_at,
    1 + max(ifnull((SELECT max(p.turn) FROM published AS p WHERE p.topic = ?1 AND NOT p.taken), 0),
            ifnull((SELECT max(s.turn) FROM subscriptions AS s WHERE s.topic = ?1), 0)), 1
FROM published
WHERE topic = ?1 AND NOT taken AND turn IS NULL AND id > ?2 ORDER BY id LIMIT 1
