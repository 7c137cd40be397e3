-- settle_messages: the next message about an execution need not wait any longer. Served by
-- outbox_by_execution.
UPDATE outbox SET due = ?3
WHERE place = (SELECT o.place FROM outbox AS o
               WHERE o.endpoint = ?1 AND o.execution = ?2 AND o.state = 0 ORDER BY o.seq LIMIT 1)
  AND due > ?3 AND claim IS NULL
