-- claim_messages: locks the active endpoints with messages that may be claimed now, those that cool last,
-- with how many messages are under way; leaves out what others claim from at the moment, and the endpoints of
-- triggers unless $2. Served by outbox_due and outbox_claimed.
SELECT e.number, e.failures, e.probe_at, e.probing, e.id,
       (SELECT count(*) FROM outbox AS o
        WHERE o.endpoint = e.number AND o.claim IS NOT NULL AND o.due > $1)
FROM webhook_endpoints AS e
WHERE e.state = 0 AND ($2 OR substring(e.id FROM 1 FOR 8) <> convert_to('trigger-', 'utf8'))
  AND (e.probe_at IS NULL OR e.probe_at <= $1)
  AND (SELECT o.due FROM outbox AS o WHERE o.endpoint = e.number AND o.state = 0
       ORDER BY o.due LIMIT 1) <= $1
ORDER BY e.probe_at IS NOT NULL,
         (SELECT o.due FROM outbox AS o WHERE o.endpoint = e.number AND o.state = 0
          ORDER BY o.due LIMIT 1)
FOR NO KEY UPDATE OF e SKIP LOCKED
