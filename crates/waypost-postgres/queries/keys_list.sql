-- access: every key, oldest first. Served by the key of api_keys.
SELECT id, name, role, digest, created_at, revoked_at FROM api_keys ORDER BY number
