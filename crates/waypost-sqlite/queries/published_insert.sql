-- append, publish: a signal by its key, each message of a topic once. Served by the unique key of published.
INSERT INTO published (topic, message, actor, body, expires_at, from_outside, published_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (topic, message) DO NOTHING
