-- change_breaker: it is closed, and had no failure of late. Served by the primary key of breakers.
DELETE FROM breakers WHERE key = $1
