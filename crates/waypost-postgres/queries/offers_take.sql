-- tasks: the oldest of some handlers, each to one taker. Served by task_offers_by_handler: the oldest of
-- each handler, and of these the oldest.
WITH oldest AS MATERIALIZED (
    SELECT DISTINCT t.id
    FROM unnest($1::bytea[]) AS h (name)
    CROSS JOIN LATERAL (SELECT o.id FROM task_offers AS o WHERE sha256(o.handler) = sha256(h.name)
                        ORDER BY o.id LIMIT $2 FOR UPDATE SKIP LOCKED) AS t
    ORDER BY t.id LIMIT $2
), taken AS (
    DELETE FROM task_offers AS t USING oldest WHERE t.id = oldest.id
    RETURNING t.id, t.execution, t.attempt, t.owner, t.path, t.handler, t.body
)
SELECT execution, attempt, owner, path, handler, body FROM taken ORDER BY id
