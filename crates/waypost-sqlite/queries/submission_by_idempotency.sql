-- append, submitted: the execution of an idempotency key, and the digest of its submission. Served
-- by submissions_by_idempotency.
SELECT execution, digest FROM submissions WHERE idempotency = ?1
