-- audit: the line of every key. Scans slots.
WITH line AS (
    SELECT s.key, count(*) FILTER (WHERE s.holding) AS holding,
           coalesce(max(s.most) FILTER (WHERE s.holding), 0) AS most,
           max(s.ticket) FILTER (WHERE s.holding) AS last,
           min(s.ticket) FILTER (WHERE NOT s.holding) AS first
    FROM slots AS s GROUP BY s.key
)
SELECT k.key, line.holding, line.most, held.execution, waits.execution, waits.most
FROM line JOIN slot_keys AS k ON k.id = line.key
LEFT JOIN slots AS held ON held.key = line.key AND held.ticket = line.last
LEFT JOIN slots AS waits ON waits.key = line.key AND waits.ticket = line.first
ORDER BY k.key
