-- instances: those that are alive or own executions, with how many. Served by instances_alive and
-- the key of instances; scans control, on a reader, which blocks no writer.
WITH owned (number, executions) AS MATERIALIZED (
    SELECT owner, count(*) FROM control WHERE owner IS NOT NULL GROUP BY owner
)
SELECT instances.id, instances.alive_until, instances.fold, coalesce(owned.executions, 0),
       instances.about, instances.renewed_at
FROM instances LEFT JOIN owned ON owned.number = instances.number
WHERE instances.number IN (SELECT number FROM instances WHERE alive_until > ?1
                           UNION ALL SELECT number FROM owned)
ORDER BY instances.id
