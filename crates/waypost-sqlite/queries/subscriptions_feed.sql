-- append, publish: the waits for a topic that nothing is on its way to, and what now is. Returns their
-- executions. Served by subscriptions_by_topic.
UPDATE subscriptions SET fed = ?2 WHERE topic = ?1 AND fed IS NULL RETURNING execution
