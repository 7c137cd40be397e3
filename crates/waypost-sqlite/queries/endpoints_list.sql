-- endpoints: all of them, oldest first; there are few. Served by the key of webhook_endpoints.
SELECT id, url, description, workflow, kinds, with_output, secret, former_secret, former_until, state,
       failures, probe_at, probing, created_at, with_links
FROM webhook_endpoints ORDER BY number
