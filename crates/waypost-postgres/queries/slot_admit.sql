-- append, audit: whoever holds a slot after a frame that asks for one is not held, and ready. Served by
-- the keys of control and slots.
UPDATE control AS c SET ready = true, held = NULL, wakes_from = 0
FROM slots AS s
WHERE c.execution = ANY ($1::int8[]) AND s.execution = c.execution AND s.holding
  AND c.owner IS NULL AND c.wakes_from < 2
