-- projector: locks the rows of executions ($1) whose seq is the one that the changes continue from
-- ($2), in the order of their keys. Served by the key of execution_rows.
SELECT e.execution
FROM unnest($1::bigint[], $2::bigint[]) AS c (execution, since)
JOIN execution_rows AS e ON e.execution = c.execution AND e.projected = c.since
ORDER BY e.execution FOR UPDATE OF e
