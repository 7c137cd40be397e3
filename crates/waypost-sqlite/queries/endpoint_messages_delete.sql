-- delete_endpoint. Served by outbox_by_execution and the unique key of webhook_endpoints.
DELETE FROM outbox WHERE endpoint = (SELECT number FROM webhook_endpoints WHERE id = ?1)
