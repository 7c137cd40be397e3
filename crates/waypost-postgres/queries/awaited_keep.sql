-- delete_endpoint: what became of messages that nodes wait for is kept beyond their endpoint; what it has not
-- accepted has failed. Walks outbox_awaited, which is mostly empty; served by outbox_by_execution.
UPDATE outbox_awaited AS a
SET delivered = a.delivered + (o.state = 1)::int, failed = a.failed + (o.state <> 1)::int
FROM outbox AS o
WHERE o.endpoint = $1 AND o.execution = a.execution AND o.seq = a.seq
