-- inspect: the mail of executions, oldest first, without what an end under way did not see and no claim
-- has swept up yet, which takes a second or two. Served by inbox_by_execution and the key of control.
SELECT m.execution, m.message, m.actor, m.body
FROM (SELECT i.* FROM inbox AS i WHERE i.execution = ANY ($1::int8[]) OFFSET 0) AS m
WHERE m.at < (SELECT waypost_now()) - 10000
   OR (SELECT true FROM control AS c WHERE c.execution = m.execution)
ORDER BY m.id
