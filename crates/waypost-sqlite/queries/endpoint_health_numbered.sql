-- claim_messages, claim, open: how an endpoint does. Served by the key of webhook_endpoints.
SELECT number, failures, probe_at, probing FROM webhook_endpoints WHERE number = ?1
