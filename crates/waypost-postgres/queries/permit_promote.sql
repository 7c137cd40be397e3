-- append, claim, inspect: while fewer of a key hold a permit than the first that waits has as its limit, that
-- one comes to hold one, and is not held any more and ready, unless somebody owns it or has set it aside.
-- Needs no lock of the key: an old snapshot shows those that are gone as if they still held, and whoever
-- came to hold one meanwhile as one who waits in front, so that too few are let in, never too many;
-- whoever left lets in the rest. A row that somebody has locked is left to them, or to the next sweep; who
-- owns one is asked of what was locked, since somebody may have given it up after the snapshot. Served by permits_holding, permits_waiting and the keys.
WITH queue AS MATERIALIZED (
    SELECT w.execution,
           bool_and(h.holding + w.ahead < w.most) OVER (PARTITION BY k.id ORDER BY w.ticket) AS turn
    FROM unnest($1::int8[]) AS k (id)
    CROSS JOIN LATERAL (SELECT count(*) AS holding FROM permits AS s WHERE s.key = k.id AND s.holding)
                       AS h
    CROSS JOIN LATERAL (
        SELECT f.*, row_number() OVER (ORDER BY f.ticket) - 1 AS ahead
        FROM (SELECT s.execution, s.ticket, s.most FROM permits AS s
              WHERE s.key = k.id AND NOT s.holding ORDER BY s.ticket LIMIT 100) AS f
    ) AS w
), next AS MATERIALIZED (
    SELECT s.execution, c.owner IS NULL AND c.wakes_from < 2 AS is_admitted
    FROM queue
    JOIN permits AS s ON s.execution = queue.execution
    JOIN control AS c ON c.execution = s.execution
    WHERE queue.turn AND NOT s.holding
    ORDER BY s.execution
    FOR UPDATE OF s, c SKIP LOCKED
), admitted AS (
    UPDATE control AS c SET ready = true, held = NULL, wakes_from = 0
    FROM next WHERE c.execution = next.execution AND next.is_admitted
)
UPDATE permits AS s SET holding = true FROM next WHERE s.execution = next.execution
