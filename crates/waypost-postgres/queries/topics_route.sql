-- append, publish, claim: each wait for one of these topics that nothing is on its way to gets its next signal:
-- one that others have got already, in their order, or else the oldest that nothing has got. Returns the
-- executions and their signals. A signal stays until all have it who waited when it was given first; one that
-- nothing waits for stays while it is kept. The topics are locked; a wait that closes meanwhile gets nothing.
-- Served by subscriptions_hungry, published_by_topic, subscriptions_by_topic and the keys of both tables.
WITH t AS MATERIALIZED (
    SELECT waypost_now() AS now
), hungry AS MATERIALIZED (
    SELECT s.execution, s.wait, s.which, s.topic, s.opened_at FROM subscriptions AS s
    WHERE s.topic = ANY ($1::bytea[]) AND s.fed IS NULL
    ORDER BY s.execution, s.wait, s.which
    FOR UPDATE OF s
), reached AS MATERIALIZED (
    -- What an execution got was for all of its waits.
    SELECT s.execution, s.topic, max(s.turn) AS turn FROM subscriptions AS s
    WHERE s.execution = ANY (ARRAY (SELECT h.execution FROM hungry AS h)) AND s.topic = ANY ($1::bytea[])
    GROUP BY s.execution, s.topic
), next AS MATERIALIZED (
    SELECT h.execution, h.wait, h.which, f.id
    FROM hungry AS h JOIN reached AS r ON r.execution = h.execution AND r.topic = h.topic
    CROSS JOIN LATERAL (
        SELECT p.id FROM published AS p
        WHERE p.topic = h.topic AND NOT p.taken AND r.turn < coalesce(p.turn, r.turn + 1)
          AND (p.expires_at > (SELECT t.now FROM t) OR h.opened_at <= p.published_at)
        ORDER BY p.turn, p.id LIMIT 1) AS f
), sent AS MATERIALIZED (
    SELECT p.id, p.topic, p.message, p.actor, p.body, p.from_outside, p.turn AS had, n.receivers,
        CASE WHEN p.expires_at > (SELECT t.now FROM t) THEN 9223372036854775807
             ELSE p.published_at END AS before,
        coalesce(p.turn, row_number() OVER (PARTITION BY p.topic, p.turn IS NULL ORDER BY p.id)
            + greatest((SELECT coalesce(max(o.turn), 0) FROM published AS o
                        WHERE o.topic = p.topic AND NOT o.taken),
                       (SELECT coalesce(max(s.turn), 0) FROM subscriptions AS s
                        WHERE s.topic = p.topic))) AS turn
    FROM (SELECT id, count(*) AS receivers FROM next GROUP BY id) AS n
    JOIN published AS p ON p.id = n.id
), fed AS (
    UPDATE subscriptions AS s SET fed = m.message, turn = m.turn
    FROM next AS n JOIN sent AS m ON m.id = n.id
    WHERE s.execution = n.execution AND s.wait = n.wait AND s.which = n.which
    RETURNING s.execution, m.id
), stays AS MATERIALIZED (
    SELECT m.id, m.had, m.turn, m.from_outside,
        (SELECT count(*) FROM (
            SELECT FROM subscriptions AS s
            WHERE s.topic = m.topic AND s.turn < m.turn AND s.opened_at <= m.before
            LIMIT m.receivers + 1) AS s) > m.receivers AS lacking
    FROM sent AS m
), given AS (
    UPDATE published AS p SET turn = y.turn FROM stays AS y
    WHERE p.id = y.id AND y.lacking AND y.had IS NULL
), gone AS (
    DELETE FROM published AS p USING stays AS y
    WHERE p.id = y.id AND NOT y.lacking AND NOT y.from_outside
), taken AS (
    UPDATE published AS p SET taken = true, body = '' FROM stays AS y
    WHERE p.id = y.id AND NOT y.lacking AND y.from_outside
)
SELECT DISTINCT f.execution, m.topic, m.message, m.actor, m.body
FROM fed AS f JOIN sent AS m ON m.id = f.id
ORDER BY f.execution
