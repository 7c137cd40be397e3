-- change_endpoint: pauses it ($2 = 1) or resumes it, well or not. Served by the unique key of
-- webhook_endpoints.
UPDATE webhook_endpoints SET state = $2::int2,
    failures = CASE WHEN $2::int2 = 0 THEN 0 ELSE failures END,
    probe_at = CASE WHEN $2::int2 = 0 THEN NULL ELSE probe_at END,
    probing = probing AND $2::int2 <> 0
WHERE id = $1
