-- messages: a page about one execution (?5), newest first; else as outbox_list. Served by outbox_by_execution,
-- once for each endpoint.
SELECT o.place, e.id, o.execution, o.seq, o.mark, o.kind, o.at, o.frame_seq, o.data, o.state, o.attempts,
       o.due, o.status, o.took, o.reason, o.settled_at
FROM webhook_endpoints AS e CROSS JOIN outbox AS o ON o.endpoint = e.number
WHERE o.execution = ?5 AND o.place < ?1 AND (?3 IS NULL OR e.id = ?3) AND (?4 IS NULL OR o.state = ?4)
ORDER BY o.place DESC LIMIT ?2
