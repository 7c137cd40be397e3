-- change_breaker, after a failure: rows that mean nothing any more. Served by breakers_expired.
DELETE FROM breakers WHERE expires_at <= ?1
