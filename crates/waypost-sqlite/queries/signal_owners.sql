-- signal_owners: the owners of executions that a signal of this topic is on its way to. Served by
-- subscriptions_by_topic and the keys of control and instances.
SELECT DISTINCT instances.id FROM subscriptions
JOIN control ON control.execution = subscriptions.execution
JOIN instances ON instances.number = control.owner
WHERE subscriptions.topic = ?1 AND subscriptions.fed IS NOT NULL
