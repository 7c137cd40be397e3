-- claim_messages: when the next message may be claimed. Served by outbox_due.
SELECT min(max(first_due, coalesce(probe_at, first_due))) FROM (
    SELECT e.probe_at,
           (SELECT min(o.due) FROM outbox AS o WHERE o.endpoint = e.number AND o.state = 0) AS first_due
    FROM webhook_endpoints AS e WHERE e.state = 0
) WHERE first_due IS NOT NULL
