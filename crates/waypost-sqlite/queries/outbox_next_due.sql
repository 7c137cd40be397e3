-- claim_messages: when the next message may be claimed, of a trigger only if ?1. Served by outbox_due.
SELECT min(max(first_due, coalesce(probe_at, first_due))) FROM (
    SELECT e.probe_at,
           (SELECT min(o.due) FROM outbox AS o WHERE o.endpoint = e.number AND o.state = 0) AS first_due
    FROM webhook_endpoints AS e WHERE e.state = 0 AND (?1 OR substr(e.id, 1, 8) <> 'trigger-')
) WHERE first_due IS NOT NULL
