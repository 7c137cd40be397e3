-- subscribed: the waits for signals with names between two bounds. Served by subscriptions_by_topic.
SELECT DISTINCT execution, topic FROM subscriptions WHERE topic >= ?1 AND topic < ?2
