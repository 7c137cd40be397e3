-- claim_messages: messages of an endpoint that are due, and where an earlier one about the same execution
-- is pending, when that one is due. Served by outbox_due and outbox_by_execution.
SELECT o.place, o.execution, o.seq, o.mark, o.kind, o.at, o.frame_seq, o.data,
       (SELECT h.due FROM outbox AS h
        WHERE h.endpoint = o.endpoint AND h.execution = o.execution AND h.seq < o.seq AND h.state = 0
        ORDER BY h.seq LIMIT 1),
       o.due
FROM outbox AS o INDEXED BY outbox_due
WHERE o.endpoint = ?1 AND o.state = 0 AND o.due <= ?2
ORDER BY o.due, o.place LIMIT ?3
