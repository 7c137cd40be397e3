-- change_endpoint: pauses it (?2 = 1) or resumes it, well or not. Served by the unique key of
-- webhook_endpoints.
UPDATE webhook_endpoints SET state = ?2, failures = iif(?2 = 0, 0, failures),
    probe_at = iif(?2 = 0, NULL, probe_at), probing = iif(?2 = 0, 0, probing)
WHERE id = ?1
