-- claim_messages: makes messages due that instances other than $1 had claimed when their leases expired, and lets
-- the next probe of their endpoints go where one of them was it. Locks endpoints first, as all claims do; those
-- that are locked are left to the next claim. Served by outbox_claimed and the key of instances.
WITH clock AS MATERIALIZED (
    SELECT waypost_now() AS now
), lapsed AS MATERIALIZED (
    SELECT o.place, o.endpoint, o.claim, o.due FROM outbox AS o
    JOIN instances AS i ON i.id = o.claimer
    WHERE o.claim IS NOT NULL AND o.claimer <> $1 AND o.due > (SELECT now FROM clock)
      AND i.alive_until <= (SELECT now FROM clock)
), locked AS MATERIALIZED (
    SELECT e.number FROM webhook_endpoints AS e WHERE e.number IN (SELECT endpoint FROM lapsed)
    ORDER BY e.number FOR NO KEY UPDATE OF e SKIP LOCKED
), released AS (
    UPDATE outbox AS o SET due = (SELECT now FROM clock), claim = NULL
    FROM lapsed WHERE o.place = lapsed.place AND o.claim = lapsed.claim
      AND lapsed.endpoint IN (SELECT number FROM locked)
    RETURNING o.endpoint, lapsed.due
)
UPDATE webhook_endpoints AS e SET probe_at = (SELECT now FROM clock), probing = false
WHERE e.probing AND EXISTS (SELECT 1 FROM released AS r WHERE r.endpoint = e.number AND r.due = e.probe_at)
