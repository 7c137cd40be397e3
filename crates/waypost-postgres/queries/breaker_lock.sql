-- change_breaker: one breaker, locked, and the time after the lock. Served by the primary key of breakers.
WITH locked AS MATERIALIZED (SELECT state FROM breakers WHERE key = $1 FOR UPDATE)
SELECT state, waypost_now() FROM locked
