-- add_endpoint. Served by the unique key of webhook_endpoints.
INSERT INTO webhook_endpoints (id, url, description, workflow, kinds, with_output, with_links, secret,
                               created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, (SELECT waypost_now()))
ON CONFLICT (id) DO NOTHING
