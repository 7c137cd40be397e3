-- load, claim: the mail of executions, oldest first. Fenced in, or a plan made while the inbox was empty
-- would read all of it in order. Served by inbox_by_execution.
SELECT m.execution, m.message, m.actor, m.body
FROM (SELECT i.* FROM inbox AS i WHERE i.execution = ANY ($1::int8[]) OFFSET 0) AS m
ORDER BY m.id
