-- append, publish: signals by their keys, each message of a topic once. Served by published_by_message.
INSERT INTO published (topic, message, actor, body, expires_at, from_outside, published_at)
SELECT p.topic, p.message, $3::bytea, p.body, t.now + p.keep, $6::bool, t.now
FROM unnest($1::bytea[], $2::bytea[], $4::bytea[], $5::int8[]) WITH ORDINALITY
     AS p (topic, message, body, keep, n), (SELECT waypost_now() AS now) AS t
ORDER BY p.n
ON CONFLICT DO NOTHING
