-- append: the oldest of a key but one, and how many there are, that were not sent a cancellation yet.
-- Served by permits_by_key.
SELECT execution,
       (SELECT count(*) FROM permits WHERE key = ?1 AND superseded = 0 AND execution <> ?2)
FROM permits WHERE key = ?1 AND superseded = 0 AND execution <> ?2 ORDER BY ticket LIMIT 1
