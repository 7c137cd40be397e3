-- subscribed: the waits for signals with names between bounds ($1, $2). Served by subscriptions_by_topic.
SELECT DISTINCT s.execution, s.topic
FROM unnest($1::bytea[], $2::bytea[]) AS b (low, high)
JOIN subscriptions AS s ON s.topic >= b.low AND s.topic < b.high
ORDER BY s.execution, s.topic
