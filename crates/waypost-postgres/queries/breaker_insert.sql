-- change_breaker, before a failure: a row to lock, which means nothing yet. Served by the primary key of
-- breakers.
INSERT INTO breakers (key, state, expires_at) VALUES ($1, '\x', 0) ON CONFLICT (key) DO NOTHING
