-- append, audit: who waits first, with his limit, and how many hold a slot. Served by slots_waiting
-- and slots_holding.
SELECT execution, most, (SELECT count(*) FROM slots WHERE key = ?1 AND holding = 1)
FROM slots WHERE key = ?1 AND holding = 0 ORDER BY ticket LIMIT 1
