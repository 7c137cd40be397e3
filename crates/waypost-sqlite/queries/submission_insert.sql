-- append: takes the names of a new execution, if all are free. Served by the keys of submissions.
INSERT INTO submissions (execution, key, idempotency, digest) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO NOTHING
