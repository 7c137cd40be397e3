-- trim_outbox: gives up the oldest messages of endpoints with more than $1 of them, at most $3 of each.
-- Walks outbox_due.
UPDATE outbox SET state = 2, settled_at = (SELECT waypost_now()), claim = NULL, took = coalesce(took, 0),
    reason = $2
WHERE place = ANY (ARRAY (
    SELECT shed.place
    FROM (SELECT o.endpoint, count(*) - $1::int8 AS over FROM outbox AS o WHERE o.state = 0
          GROUP BY o.endpoint HAVING count(*) > $1::int8) AS crowded
    CROSS JOIN LATERAL (
        SELECT o.place FROM outbox AS o WHERE o.endpoint = crowded.endpoint AND o.state = 0
        ORDER BY o.place LIMIT least(crowded.over, $3::int8)
    ) AS shed
))
