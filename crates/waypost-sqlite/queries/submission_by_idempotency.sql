-- append, submitted: who has an idempotency key, and for what. Served by submissions_by_idempotency.
SELECT execution, digest FROM submissions WHERE idempotency = ?1
