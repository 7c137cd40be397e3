-- inspect: the queue of every key. Scans permits, by a reader, which blocks no writer.
WITH queue AS (
    SELECT key,
           sum(holding) AS holding,
           coalesce(max(most) FILTER (WHERE holding = 1), 0) AS most,
           max(ticket) FILTER (WHERE holding = 1) AS last,
           min(ticket) FILTER (WHERE holding = 0) AS first
    FROM permits GROUP BY key
)
SELECT queue.key, queue.holding, queue.most, held.execution, waits.execution, waits.most
FROM queue LEFT JOIN permits AS held ON held.ticket = queue.last
          LEFT JOIN permits AS waits ON waits.ticket = queue.first
ORDER BY queue.key
