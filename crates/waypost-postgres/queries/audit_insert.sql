-- access: entries of the audit log, in order.
INSERT INTO audit (at, actor, address, action, subject, status)
SELECT t.at, t.actor, t.address, t.action, t.subject, t.status
FROM unnest($1::int8[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::int4[]) WITH ORDINALITY
     AS t (at, actor, address, action, subject, status, n)
ORDER BY t.n
