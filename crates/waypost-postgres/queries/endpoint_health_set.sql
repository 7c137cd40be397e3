-- claim_messages, settle_messages; disables the endpoint where $5 is true. Served by the key of
-- webhook_endpoints.
UPDATE webhook_endpoints SET failures = $2, probe_at = $3, probing = $4,
    state = CASE WHEN $5::bool THEN 2 ELSE state END
WHERE number = $1
