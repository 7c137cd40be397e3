-- define: is there an endpoint of this id? Served by the unique key of webhook_endpoints.
SELECT EXISTS (SELECT 1 FROM webhook_endpoints WHERE id = $1)
