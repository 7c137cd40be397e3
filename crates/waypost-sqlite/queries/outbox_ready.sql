-- claim_messages: the active endpoints with messages, those that cool last, with how many messages are
-- under way; without those of triggers unless ?2. Served by outbox_due and outbox_claimed.
SELECT * FROM (
    SELECT e.number, e.failures, e.probe_at, e.probing, e.id,
           (SELECT count(*) FROM outbox AS o
            WHERE o.endpoint = e.number AND o.claim IS NOT NULL AND o.due > ?1) AS under_way,
           (SELECT min(o.due) FROM outbox AS o WHERE o.endpoint = e.number AND o.state = 0) AS first_due
    FROM webhook_endpoints AS e WHERE e.state = 0 AND (?2 OR substr(e.id, 1, 8) <> 'trigger-')
) WHERE first_due IS NOT NULL
ORDER BY probe_at IS NOT NULL, first_due
