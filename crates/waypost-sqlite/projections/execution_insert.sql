-- projector: the row of an execution whose first event is in this batch. Served by the key. A log
-- that creates its execution twice is damaged; it keeps its first row and holds up nobody.
INSERT INTO execution_rows (execution, key, definition, workflow, created_at, deadline, labels, input,
    seq, status, generation, epoch, started_at, completed_at, updated_at, resumed_at, resumed_by,
    nodes_executed, current_path, waited, error, failure, output)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
    ?21, ?22, ?23)
ON CONFLICT DO NOTHING
