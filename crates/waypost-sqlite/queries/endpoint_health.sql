-- settle_messages: how an endpoint does. Served by the unique key of webhook_endpoints.
SELECT number, failures, probe_at, probing FROM webhook_endpoints WHERE id = ?1
