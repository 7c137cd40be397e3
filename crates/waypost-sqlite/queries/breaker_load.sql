-- change_breaker: one breaker. Served by the primary key of breakers.
SELECT state FROM breakers WHERE key = ?1
