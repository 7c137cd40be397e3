-- append: the oldest row of a key (?1) that no newcomer has superseded, and how many of those there are, as
-- far as they count (?2). Served by permits_by_key.
SELECT (SELECT execution FROM permits WHERE key = ?1 AND superseded = 0 ORDER BY ticket LIMIT 1),
       (SELECT count(*) FROM (SELECT 1 FROM permits WHERE key = ?1 AND superseded = 0 LIMIT ?2) AS counted)
