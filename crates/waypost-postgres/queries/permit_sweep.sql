-- claim, inspect: keys of which the first row that waits may get a permit. It spares reading the queues of
-- all others; the rule itself is applied to those that it returns. Leaps from key to key, however many rows
-- wait for each of them. Served by permits_waiting and permits_holding.
WITH RECURSIVE keys (key) AS (
    (SELECT s.key FROM permits AS s WHERE NOT s.holding ORDER BY s.key, s.ticket LIMIT 1)
    UNION ALL
    SELECT (SELECT s.key FROM permits AS s WHERE NOT s.holding AND s.key > keys.key
            ORDER BY s.key, s.ticket LIMIT 1)
    FROM keys WHERE keys.key IS NOT NULL
)
SELECT keys.key FROM keys
WHERE (SELECT count(*) FROM permits AS h WHERE h.key = keys.key AND h.holding)
    < (SELECT w.most FROM permits AS w WHERE w.key = keys.key AND NOT w.holding
       ORDER BY w.ticket LIMIT 1)
