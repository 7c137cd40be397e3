-- settle_trigger: dead letters of a trigger.
INSERT INTO dead_fires (trigger, item, label, at, reason, payload)
SELECT $1, a.item, a.label, (SELECT waypost_now()), a.reason, a.payload
FROM unnest($2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[]) WITH ORDINALITY AS a (item, label, reason, payload, n)
ORDER BY a.n
