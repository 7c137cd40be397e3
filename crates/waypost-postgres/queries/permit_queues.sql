-- inspect: the queue of every key. Scans permits.
WITH queue AS (
    SELECT s.key, count(*) FILTER (WHERE s.holding) AS holding,
           coalesce(max(s.most) FILTER (WHERE s.holding), 0) AS most,
           max(s.ticket) FILTER (WHERE s.holding) AS last,
           min(s.ticket) FILTER (WHERE NOT s.holding) AS first
    FROM permits AS s GROUP BY s.key
)
SELECT k.key, queue.holding, queue.most, held.execution, waits.execution, waits.most
FROM queue JOIN permit_keys AS k ON k.id = queue.key
LEFT JOIN permits AS held ON held.key = queue.key AND held.ticket = queue.last
LEFT JOIN permits AS waits ON waits.key = queue.key AND waits.ticket = queue.first
ORDER BY k.key
