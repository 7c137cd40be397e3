-- replay_messages: these, if they are settled. Served by outbox_by_execution.
UPDATE outbox AS o SET state = 0, attempts = 0, since = $2, due = $2, settled_at = NULL
FROM unnest($3::int8[], $4::int8[], $5::int8[]) AS m (execution, seq, mark)
WHERE o.endpoint = $1 AND o.execution = m.execution AND o.seq = m.seq AND o.mark = m.mark AND o.state > 0
