-- collect: the mail of the executions of an owner, oldest first; where ?3 is not NULL, none but those
-- whose number modulo ?3 is ?4. Walks the inbox, which is empty most of the time, and looks up control
-- by its key.
SELECT inbox.execution, inbox.message, inbox.actor, inbox.body
FROM inbox CROSS JOIN control ON control.execution = inbox.execution
WHERE control.owner = (SELECT number FROM instances WHERE id = ?1)
  AND (?3 IS NULL OR inbox.execution % ?3 = ?4)
ORDER BY inbox.id LIMIT ?2
