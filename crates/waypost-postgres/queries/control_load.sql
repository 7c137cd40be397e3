-- load, claim: control rows, with their places in the queues of their concurrency keys. Served by
-- the keys of control, permits and permit_keys.
SELECT c.execution, c.owner, c.epoch, c.next_due, c.ready, c.held, k.key, s.holding,
       (SELECT count(*) FROM permits AS b WHERE b.key = s.key AND b.ticket < s.ticket),
       c.crashes, c.doubt
FROM control AS c
LEFT JOIN LATERAL (SELECT o.* FROM permits AS o WHERE o.execution = c.execution OFFSET 0) AS s ON true
LEFT JOIN LATERAL (SELECT o.key FROM permit_keys AS o WHERE o.id = s.key OFFSET 0) AS k ON true
WHERE c.execution = ANY ($1::int8[])
