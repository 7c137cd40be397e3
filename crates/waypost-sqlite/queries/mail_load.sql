-- load, claim, collect: the oldest mail of an execution. Served by the unique key of inbox.
SELECT execution, message, actor, body FROM inbox WHERE execution = ?1 ORDER BY id LIMIT ?2
