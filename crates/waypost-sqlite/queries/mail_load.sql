-- load, claim: the mail of an execution, oldest first. Served by the unique key of inbox.
SELECT execution, message, actor, body FROM inbox WHERE execution = ?1 ORDER BY id
