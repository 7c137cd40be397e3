-- append: an execution waits for a signal by its key. Served by the key of subscriptions.
INSERT INTO subscriptions (execution, wait, which, topic) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO NOTHING
