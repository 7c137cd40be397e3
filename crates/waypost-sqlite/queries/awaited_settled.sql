-- append, claim_messages, settle_messages: messages that nodes wait for and that no endpoint waits for any
-- more. Mostly there are none. Served by the key of outbox_awaited, and by outbox_by_execution once for each
-- endpoint.
SELECT a.execution, a.seq, a.mark,
       a.delivered + (SELECT count(*) FROM webhook_endpoints AS e CROSS JOIN outbox AS o ON o.endpoint = e.number
        WHERE o.execution = a.execution AND o.seq = a.seq AND o.state = 1),
       a.failed + (SELECT count(*) FROM webhook_endpoints AS e CROSS JOIN outbox AS o ON o.endpoint = e.number
        WHERE o.execution = a.execution AND o.seq = a.seq AND o.state = 2)
FROM outbox_awaited AS a
WHERE NOT EXISTS (SELECT 1 FROM webhook_endpoints AS e CROSS JOIN outbox AS o ON o.endpoint = e.number
                  WHERE o.execution = a.execution AND o.seq = a.seq AND o.state = 0)
LIMIT 100
