-- list_breakers: a page by key. Served by the primary key of breakers.
SELECT key, state FROM breakers
WHERE (?1 IS NULL OR key > ?1) AND expires_at > ?2
ORDER BY key
LIMIT ?3
