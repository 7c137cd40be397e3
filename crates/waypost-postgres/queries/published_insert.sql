-- append, publish: signals by their keys, each message once. Served by published_by_message.
INSERT INTO published (topic, message, actor, body, expires_at, from_outside)
SELECT p.topic, p.message, $3::bytea, p.body, (SELECT waypost_now()) + p.keep, $6::bool
FROM unnest($1::bytea[], $2::bytea[], $4::bytea[], $5::int8[]) WITH ORDINALITY
     AS p (topic, message, body, keep, n)
ORDER BY p.n
ON CONFLICT DO NOTHING
