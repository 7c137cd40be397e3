-- access: keeps a key, if its id is free. Served by api_keys_by_id.
INSERT INTO api_keys (id, name, role, digest, created_at) VALUES ($1, $2, $3, $4, waypost_now())
ON CONFLICT DO NOTHING
