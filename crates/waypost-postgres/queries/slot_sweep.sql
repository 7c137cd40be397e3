-- claim, audit: keys of which somebody could come to hold a slot. Leaps from key to key, however many wait
-- for each of them. Served by slots_waiting and slots_holding.
WITH RECURSIVE keys (key) AS (
    (SELECT s.key FROM slots AS s WHERE NOT s.holding ORDER BY s.key, s.ticket LIMIT 1)
    UNION ALL
    SELECT (SELECT s.key FROM slots AS s WHERE NOT s.holding AND s.key > keys.key
            ORDER BY s.key, s.ticket LIMIT 1)
    FROM keys WHERE keys.key IS NOT NULL
)
SELECT keys.key FROM keys
WHERE (SELECT count(*) FROM slots AS h WHERE h.key = keys.key AND h.holding)
    < (SELECT w.most FROM slots AS w WHERE w.key = keys.key AND NOT w.holding
       ORDER BY w.ticket LIMIT 1)
