-- claim, audit: keys of which somebody could come to hold a slot. Served by slots_waiting and
-- slots_holding.
SELECT k.key FROM (SELECT DISTINCT s.key FROM slots AS s WHERE NOT s.holding) AS k
WHERE (SELECT count(*) FROM slots AS h WHERE h.key = k.key AND h.holding)
    < (SELECT w.most FROM slots AS w WHERE w.key = k.key AND NOT w.holding ORDER BY w.ticket LIMIT 1)
