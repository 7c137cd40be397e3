-- inspect, rebuild: of the next $2 executions that have rows, those without a log, and where they end.
-- Served by the keys of execution_rows and frames.
WITH next AS MATERIALIZED (
    SELECT execution FROM execution_rows WHERE execution > $1 ORDER BY execution LIMIT $2
)
SELECT (SELECT max(execution) FROM next),
       (SELECT coalesce(array_agg(execution), '{}') FROM next
        WHERE NOT EXISTS (SELECT FROM frames WHERE frames.execution = next.execution))
