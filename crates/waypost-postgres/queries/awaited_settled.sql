-- append, claim_messages, settle_messages: takes messages, of these executions ($1) where given,
-- that nodes wait for and that no endpoint waits for any more. Of two that take one, the second finds it locked and then gone. Served by the key of
-- outbox_awaited, and by outbox_by_execution once for each endpoint.
DELETE FROM outbox_awaited AS a
WHERE (a.execution, a.seq) IN (
    SELECT w.execution, w.seq FROM outbox_awaited AS w
    WHERE ($1::int8[] IS NULL OR w.execution = ANY ($1))
      AND NOT EXISTS (SELECT 1 FROM webhook_endpoints AS e JOIN outbox AS o ON o.endpoint = e.number
                      WHERE o.execution = w.execution AND o.seq = w.seq AND o.state = 0)
    LIMIT 100 FOR UPDATE SKIP LOCKED
)
RETURNING a.execution, a.seq, a.mark,
    a.delivered + (SELECT count(*) FROM webhook_endpoints AS e JOIN outbox AS o ON o.endpoint = e.number
     WHERE o.execution = a.execution AND o.seq = a.seq AND o.state = 1),
    a.failed + (SELECT count(*) FROM webhook_endpoints AS e JOIN outbox AS o ON o.endpoint = e.number
     WHERE o.execution = a.execution AND o.seq = a.seq AND o.state = 2)
