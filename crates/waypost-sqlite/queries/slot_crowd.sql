-- append: how many of a key hold a slot, and how many wait. Served by slots_holding and
-- slots_waiting.
SELECT (SELECT count(*) FROM slots WHERE key = ?1 AND holding = 1),
       EXISTS (SELECT 1 FROM slots WHERE key = ?1 AND holding = 0)
