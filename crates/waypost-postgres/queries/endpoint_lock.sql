-- settle_messages, replay_messages: how an endpoint does; locks it. Served by the unique key of
-- webhook_endpoints.
SELECT number, failures, probe_at, probing, (SELECT waypost_now()) FROM webhook_endpoints
WHERE id = $1 FOR NO KEY UPDATE
