-- append, inspect: whoever holds a permit after a frame that asks for one is not held, and ready. Served by
-- the keys of control and permits.
UPDATE control AS c SET ready = true, held = NULL, wakes_from = 0
FROM permits AS s
WHERE c.execution = ANY ($1::int8[]) AND s.execution = c.execution AND s.holding
  AND c.owner IS NULL AND c.wakes_from < 2
