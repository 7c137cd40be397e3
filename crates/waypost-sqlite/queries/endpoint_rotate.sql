-- change_endpoint: a new secret; the former one signs until ?3. Served by the unique key of
-- webhook_endpoints.
UPDATE webhook_endpoints SET former_secret = secret, former_until = ?3, secret = ?2 WHERE id = ?1
