-- signal_owners: the owners of executions that a signal of one of these topics is on its way to. Served by
-- subscriptions_by_topic and the key of control.
SELECT DISTINCT c.owner FROM subscriptions AS s JOIN control AS c ON c.execution = s.execution
WHERE s.topic = ANY ($1::bytea[]) AND s.fed IS NOT NULL AND c.owner IS NOT NULL
