-- list_breakers: a page by key. Served by the primary key of breakers.
SELECT key, state, (SELECT waypost_now()) FROM breakers
WHERE ($1::bytea IS NULL OR key > $1) AND expires_at > (SELECT waypost_now())
ORDER BY key
LIMIT $2
