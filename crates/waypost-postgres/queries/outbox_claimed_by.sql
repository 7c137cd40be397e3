-- settle_messages: messages that a claim still has, by position. Served by outbox_by_execution.
SELECT m.n, o.place, o.attempts
FROM unnest($3::int8[], $4::int8[], $5::int8[]) WITH ORDINALITY AS m (execution, seq, mark, n)
JOIN outbox AS o ON o.endpoint = $1 AND o.execution = m.execution AND o.seq = m.seq AND o.mark = m.mark
WHERE o.claim = $2 AND o.state = 0
ORDER BY m.n
