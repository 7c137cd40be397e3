-- deliver: puts mail into an inbox, once. Served by the unique key of inbox.
INSERT INTO inbox (execution, message, actor, urgency, body) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (execution, message) DO NOTHING
