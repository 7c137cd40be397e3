-- messages: a page about one execution ($5), newest first; else as outbox_list. Served by outbox_by_execution,
-- once for each endpoint.
SELECT o.place, e.id, o.execution, o.seq, o.mark, o.kind, o.at, o.frame_seq, o.data, o.state, o.attempts,
       o.due, o.status, o.took, o.reason, o.settled_at
FROM outbox AS o JOIN webhook_endpoints AS e ON e.number = o.endpoint
WHERE o.execution = $5 AND o.place < $1 AND ($3::bytea IS NULL OR e.id = $3)
      AND ($4::int2 IS NULL OR o.state = $4)
ORDER BY o.place DESC LIMIT $2
