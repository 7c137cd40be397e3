-- append, publish: the oldest signal of a topic that nothing has taken. Served by published_by_topic.
SELECT id, message, actor, body, from_outside FROM published
WHERE topic = ?1 AND NOT taken AND expires_at > ?2 ORDER BY id LIMIT 1
