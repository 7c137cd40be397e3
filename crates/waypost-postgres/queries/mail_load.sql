-- load, claim, collect: the oldest mail of executions, of each at most $2. Fenced in, or a plan made while
-- the inbox was empty would read all of it in order. Served by inbox_by_execution.
SELECT m.execution, m.message, m.actor, m.body
FROM unnest($1::int8[]) AS a (execution)
CROSS JOIN LATERAL (
    SELECT i.* FROM (SELECT o.* FROM inbox AS o WHERE o.execution = a.execution OFFSET 0) AS i
    ORDER BY i.id LIMIT $2
) AS m
ORDER BY m.id
