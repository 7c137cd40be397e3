-- delete_endpoint: what became of messages that nodes wait for is kept beyond their endpoint; what it has not
-- accepted has failed. Walks outbox_awaited, which is mostly empty; served by outbox_by_execution.
UPDATE outbox_awaited SET delivered = delivered + (o.state = 1), failed = failed + (o.state <> 1)
FROM outbox AS o
WHERE o.endpoint = (SELECT number FROM webhook_endpoints WHERE id = ?1)
  AND o.execution = outbox_awaited.execution AND o.seq = outbox_awaited.seq
