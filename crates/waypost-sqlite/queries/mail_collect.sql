-- collect: the mail of all executions of an owner, oldest first. Walks the inbox, which is empty most
-- of the time, and looks up control by its key.
SELECT inbox.execution, inbox.message, inbox.actor, inbox.body
FROM inbox CROSS JOIN control ON control.execution = inbox.execution
WHERE control.owner = (SELECT number FROM instances WHERE id = ?1)
ORDER BY inbox.id LIMIT ?2
