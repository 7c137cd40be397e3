-- append, under the lock of its key: for each execution, by position, whether it is queued already,
-- how many of its key hold a permit, and whether somebody waits. Served by the key of permits, permits_holding
-- and permits_waiting.
SELECT r.n, EXISTS (SELECT 1 FROM permits AS s WHERE s.execution = r.execution),
       (SELECT count(*) FROM permits AS s WHERE s.key = r.key AND s.holding),
       EXISTS (SELECT 1 FROM permits AS s WHERE s.key = r.key AND NOT s.holding)
FROM unnest($1::int8[], $2::int8[]) WITH ORDINALITY AS r (execution, key, n)
