-- audit: the line of every key. Scans slots, by a reader, who holds up nobody.
WITH line AS (
    SELECT key,
           sum(holding) AS holding,
           coalesce(max(most) FILTER (WHERE holding = 1), 0) AS most,
           max(ticket) FILTER (WHERE holding = 1) AS last,
           min(ticket) FILTER (WHERE holding = 0) AS first
    FROM slots GROUP BY key
)
SELECT line.key, line.holding, line.most, held.execution, waits.execution, waits.most
FROM line LEFT JOIN slots AS held ON held.ticket = line.last
          LEFT JOIN slots AS waits ON waits.ticket = line.first
ORDER BY line.key
