-- examine, repair: the waits for signals by key of an execution. Served by the key of subscriptions.
SELECT wait, which, topic FROM subscriptions WHERE execution = ?1 ORDER BY wait, which
