-- append, under the lock of its key ($1): the oldest but the newcomer ($2) that was not sent a
-- cancellation yet, where those are at least as many as the newcomer's limit ($3) and it holds no permit.
-- Served by permits_by_key.
UPDATE permits AS s SET superseded = true
WHERE s.execution = (SELECT o.execution FROM permits AS o
                     WHERE o.key = $1 AND NOT o.superseded AND o.execution <> $2
                     ORDER BY o.ticket LIMIT 1)
  AND (SELECT count(*) FROM permits AS o
       WHERE o.key = $1 AND NOT o.superseded AND o.execution <> $2) >= $3::int8
  AND NOT EXISTS (SELECT 1 FROM permits AS n WHERE n.execution = $2 AND n.holding)
RETURNING s.execution
