-- claim_messages, append (once a transaction). Served by the key of webhook_endpoints.
SELECT EXISTS (SELECT 1 FROM webhook_endpoints)
