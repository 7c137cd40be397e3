-- access: keeps a key, if its id is free. Served by the unique key of api_keys.
INSERT INTO api_keys (id, name, role, digest, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (id) DO NOTHING
