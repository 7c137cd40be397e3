-- claim_messages: what do endpoints subscribe to, if there are any, and when may the next message be claimed? Served by outbox_due.
SELECT (SELECT bit_or(kinds) FROM webhook_endpoints),
       (SELECT min(greatest(w.first_due, w.probe_at)) FROM (
            SELECT e.probe_at,
                   (SELECT o.due FROM outbox AS o WHERE o.endpoint = e.number AND o.state = 0
                    ORDER BY o.due LIMIT 1) AS first_due
            FROM webhook_endpoints AS e WHERE e.state = 0
        ) AS w WHERE w.first_due IS NOT NULL),
       (SELECT waypost_now()),
       EXISTS (SELECT 1 FROM outbox_awaited)
