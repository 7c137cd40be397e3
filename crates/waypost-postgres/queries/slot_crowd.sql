-- append, under the lock of its key: for each execution, by position, whether it stands in line already,
-- how many of its key hold a slot, and whether somebody waits. Served by the key of slots, slots_holding
-- and slots_waiting.
SELECT r.n, EXISTS (SELECT 1 FROM slots AS s WHERE s.execution = r.execution),
       (SELECT count(*) FROM slots AS s WHERE s.key = r.key AND s.holding),
       EXISTS (SELECT 1 FROM slots AS s WHERE s.key = r.key AND NOT s.holding)
FROM unnest($1::int8[], $2::int8[]) WITH ORDINALITY AS r (execution, key, n)
