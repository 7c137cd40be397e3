-- append: the executions of names that were taken, each by its position. Served by the unique
-- indexes of submissions.
SELECT a.n, (SELECT s.execution FROM submissions AS s WHERE sha256(s.key) = sha256(a.key)),
       i.execution, i.digest
FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS a (key, idempotency, n)
LEFT JOIN LATERAL (
    SELECT s.execution, s.digest FROM submissions AS s
    WHERE s.idempotency IS NOT NULL AND sha256(s.idempotency) = sha256(a.idempotency)
    OFFSET 0
) AS i ON true
