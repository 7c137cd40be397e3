-- projector: the row of an execution whose first event is in this batch. Served by the key. A log
-- that creates its execution twice is damaged; it keeps its first row and delays no other.
INSERT INTO execution_rows (execution, definition, workflow, {columns}) VALUES (?1, ?2, ?3, {values})
ON CONFLICT DO NOTHING
