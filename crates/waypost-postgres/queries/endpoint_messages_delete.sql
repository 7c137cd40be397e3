-- delete_endpoint. Served by outbox_by_execution.
DELETE FROM outbox WHERE endpoint = $1
