-- append: a message that a node waits for. Served by the key of outbox_awaited.
INSERT INTO outbox_awaited (execution, seq, mark) VALUES (?1, ?2, ?3)
