-- settle_messages: the next messages about executions need not wait any longer. Served by
-- outbox_by_execution.
UPDATE outbox AS o SET due = $3
FROM unnest($2::int8[]) AS x (execution)
WHERE o.place = (SELECT h.place FROM outbox AS h
                 WHERE h.endpoint = $1 AND h.execution = x.execution AND h.state = 0
                 ORDER BY h.seq LIMIT 1)
  AND o.due > $3 AND o.claim IS NULL
