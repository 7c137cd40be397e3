-- append: how many of a key hold a permit, and how many wait. Served by permits_holding and
-- permits_waiting.
SELECT (SELECT count(*) FROM permits WHERE key = ?1 AND holding = 1),
       EXISTS (SELECT 1 FROM permits WHERE key = ?1 AND holding = 0)
