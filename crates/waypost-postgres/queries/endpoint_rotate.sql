-- change_endpoint: a new secret; the former one signs for $3 ms. Served by the unique key of
-- webhook_endpoints.
UPDATE webhook_endpoints
SET former_secret = secret, former_until = (SELECT waypost_now()) + $3::int8, secret = $2
WHERE id = $1
