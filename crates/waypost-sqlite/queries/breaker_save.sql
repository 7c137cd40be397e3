-- change_breaker: the state from now on. Served by the primary key of breakers.
INSERT INTO breakers (key, state, expires_at) VALUES (?1, ?2, ?3)
ON CONFLICT (key) DO UPDATE SET state = excluded.state, expires_at = excluded.expires_at
