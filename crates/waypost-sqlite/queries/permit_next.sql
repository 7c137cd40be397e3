-- append, inspect: who waits first, with his limit, and how many hold a permit. Served by permits_waiting
-- and permits_holding.
SELECT execution, most, (SELECT count(*) FROM permits WHERE key = ?1 AND holding = 1)
FROM permits WHERE key = ?1 AND holding = 0 ORDER BY ticket LIMIT 1
