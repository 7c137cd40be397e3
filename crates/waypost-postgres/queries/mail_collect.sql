-- collect: the mail of the executions of an owner, oldest first; where $3 is not NULL, none but those
-- whose number modulo $3 is $4. Walks the inbox, which is empty most of the time, and looks up control
-- by its key.
SELECT i.execution, i.message, i.actor, i.body
FROM inbox AS i JOIN control AS c ON c.execution = i.execution
WHERE c.owner = $1 AND ($3::int8 IS NULL OR i.execution % $3 = $4)
ORDER BY i.id LIMIT $2
