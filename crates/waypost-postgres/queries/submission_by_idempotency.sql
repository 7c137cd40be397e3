-- submitted: the submission under an idempotency key. Served by submissions_by_idempotency.
SELECT execution, digest FROM submissions
WHERE idempotency IS NOT NULL AND sha256(idempotency) = sha256($1) AND idempotency = $1
