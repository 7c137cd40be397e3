-- trim_outbox: deletes delivered ($1 ms) and dead ($2 ms) messages and those of endpoints that are gone, and
-- gives up those that are pending for longer than $3 ms; of each at most $5. The result of a
-- message that a node waits for counts its deliveries, so these stay until then. Served by outbox_settled,
-- outbox_since, outbox_by_execution and the key of outbox_awaited.
WITH clock AS MATERIALIZED (
    SELECT waypost_now() AS now
), forgotten AS (
    DELETE FROM outbox WHERE place = ANY (ARRAY (
        SELECT o.place FROM outbox AS o
        WHERE o.state = 1 AND o.settled_at < (SELECT now FROM clock) - $1::int8
          AND NOT EXISTS (SELECT 1 FROM outbox_awaited AS a WHERE a.execution = o.execution AND a.seq = o.seq)
        LIMIT $5 FOR UPDATE SKIP LOCKED
    ) || ARRAY (
        SELECT o.place FROM outbox AS o
        WHERE o.state = 2 AND o.settled_at < (SELECT now FROM clock) - $2::int8
          AND NOT EXISTS (SELECT 1 FROM outbox_awaited AS a WHERE a.execution = o.execution AND a.seq = o.seq)
        LIMIT $5 FOR UPDATE SKIP LOCKED
    ))
    RETURNING 1
), expired AS (
    UPDATE outbox SET state = 2, settled_at = (SELECT now FROM clock), claim = NULL,
        took = coalesce(took, 0), reason = $4
    WHERE place = ANY (ARRAY (
        SELECT o.place FROM outbox AS o
        WHERE o.state = 0 AND o.since < (SELECT now FROM clock) - $3::int8
          AND o.endpoint IN (SELECT number FROM webhook_endpoints)
        LIMIT $5 FOR UPDATE SKIP LOCKED
    ))
    RETURNING 1
), strays AS (
    DELETE FROM outbox WHERE place = ANY (ARRAY (
        SELECT o.place FROM outbox AS o
        WHERE o.state = 0 AND o.since < (SELECT now FROM clock) - 60000
          AND o.endpoint NOT IN (SELECT number FROM webhook_endpoints)
        LIMIT $5 FOR UPDATE SKIP LOCKED
    ))
    RETURNING 1
)
SELECT (SELECT count(*) FROM forgotten) + (SELECT count(*) FROM expired) + (SELECT count(*) FROM strays)
