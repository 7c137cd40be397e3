-- collect: the mail of all executions of an owner, oldest first. Walks the inbox, which is empty most
-- of the time, and looks up control by its key.
SELECT i.execution, i.message, i.actor, i.body
FROM inbox AS i JOIN control AS c ON c.execution = i.execution
WHERE c.owner = $1
ORDER BY i.id LIMIT $2
