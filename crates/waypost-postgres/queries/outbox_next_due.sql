-- claim_messages: what do endpoints subscribe to, if there are any, when may the next message be claimed, is a
-- message awaited, has the lease of the claimer ($1) expired, and do messages wait that others had claimed when
-- their leases expired? Messages of triggers are due only if $2. Served by outbox_due, outbox_claimed and the key
-- of instances.
SELECT (SELECT bit_or(kinds) FROM webhook_endpoints),
       (SELECT min(greatest(w.first_due, w.probe_at)) FROM (
            SELECT e.probe_at,
                   (SELECT o.due FROM outbox AS o WHERE o.endpoint = e.number AND o.state = 0
                    ORDER BY o.due LIMIT 1) AS first_due
            FROM webhook_endpoints AS e
            WHERE e.state = 0 AND ($2 OR substring(e.id FROM 1 FOR 8) <> convert_to('trigger-', 'utf8'))
        ) AS w WHERE w.first_due IS NOT NULL),
       clock.now,
       EXISTS (SELECT 1 FROM outbox_awaited),
       EXISTS (SELECT 1 FROM instances AS i WHERE i.id = $1 AND i.alive_until <= clock.now),
       EXISTS (SELECT 1 FROM outbox AS o JOIN instances AS i ON i.id = o.claimer
               WHERE o.claim IS NOT NULL AND o.claimer <> $1 AND o.due > clock.now
                 AND i.alive_until <= clock.now)
FROM (SELECT waypost_now() AS now) AS clock
