-- messages: a page, newest first; of one endpoint (?3) or state (?4) where given. Served by the key of
-- outbox; for one execution see outbox_of_execution.
SELECT o.place, e.id, o.execution, o.seq, o.mark, o.kind, o.at, o.frame_seq, o.data, o.state, o.attempts,
       o.due, o.status, o.took, o.reason, o.settled_at
FROM outbox AS o JOIN webhook_endpoints AS e ON e.number = o.endpoint
WHERE o.place < ?1 AND (?3 IS NULL OR e.id = ?3) AND (?4 IS NULL OR o.state = ?4)
ORDER BY o.place DESC LIMIT ?2
