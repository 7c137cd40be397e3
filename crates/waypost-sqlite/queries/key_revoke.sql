-- access: a key is worth nothing from now on, or since it was first revoked. Served by the unique key
-- of api_keys.
UPDATE api_keys SET revoked_at = coalesce(revoked_at, ?2) WHERE id = ?1
