-- delete_endpoint. Served by the unique key of webhook_endpoints.
DELETE FROM webhook_endpoints WHERE id = ?1
