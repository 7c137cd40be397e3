-- append, publish: the next signal of a topic that some who wait for it have got, and others not. Served by
-- published_by_topic.
SELECT id, message, actor, body, from_outside, expires_at, published_at, turn, 0 FROM published
WHERE topic = ?1 AND NOT taken AND turn > ?2 ORDER BY turn LIMIT 1
