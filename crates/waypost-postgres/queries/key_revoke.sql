-- access: a key is worth nothing from now on, or since it was first revoked. Served by api_keys_by_id.
UPDATE api_keys SET revoked_at = coalesce(revoked_at, waypost_now()) WHERE sha256(id) = sha256($1)
