-- change_breaker: one breaker, or NULL, and the time. Served by the primary key of breakers.
SELECT (SELECT state FROM breakers WHERE key = $1), (SELECT waypost_now())
