-- examine, repair: the waits for signals by key of these executions. Served by the key of subscriptions.
SELECT execution, wait, which, topic FROM subscriptions WHERE execution = ANY ($1::int8[])
ORDER BY execution, wait, which
