-- append, publish: has a wait still to get a signal? Served by subscriptions_by_topic.
SELECT 1 FROM subscriptions WHERE topic = ?1 AND turn < ?2 AND opened_at <= ?3 LIMIT 1
