-- change_breaker: the state from now on. Served by the primary key of breakers.
UPDATE breakers SET state = $2, expires_at = $3 WHERE key = $1
