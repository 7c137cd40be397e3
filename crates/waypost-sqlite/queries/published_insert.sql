-- append, publish: a signal by its key, each message once. Served by the unique key of published.
INSERT INTO published (topic, message, actor, body, expires_at, from_outside)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (message) DO NOTHING
