-- deliver: puts mail into inboxes, each message once, in its order. Returns for each piece, by
-- position, whether the addressee is unfinished and whether it ever began; and then what was
-- inserted. Served by the keys of control and frames and by inbox_by_execution.
WITH m AS MATERIALIZED (
    SELECT m.*,
           (SELECT true FROM control AS c WHERE c.execution = m.execution) IS TRUE AS unfinished,
           (SELECT true FROM frames AS f WHERE f.execution = m.execution LIMIT 1) IS TRUE AS begun
    FROM unnest($1::int8[], $2::int2[], $3::bytea[], $4::bytea[], $5::bytea[]) WITH ORDINALITY
         AS m (execution, urgency, message, actor, body, n)
), ins AS (
    INSERT INTO inbox (execution, at, urgency, message, actor, body)
    SELECT m.execution, (SELECT waypost_now()), m.urgency, m.message, m.actor, m.body
    FROM m WHERE m.unfinished
    ORDER BY m.execution, m.n
    ON CONFLICT DO NOTHING
    RETURNING execution, message
)
SELECT m.n, m.unfinished, m.begun, NULL::int8 AS execution, NULL::bytea AS message FROM m
UNION ALL
SELECT NULL, NULL, NULL, ins.execution, ins.message FROM ins
