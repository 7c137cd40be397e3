-- append, publish: an execution got a signal, so that each of its waits for the topic had its turn. Served by the
-- key of subscriptions.
UPDATE subscriptions SET turn = ?3 WHERE execution = ?2 AND topic = ?1 AND turn < ?3
