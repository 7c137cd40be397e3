-- projector: the row of an execution that has one. Served by the key of execution_rows.
UPDATE execution_rows SET seq = ?2, status = ?3, generation = ?4, epoch = ?5, started_at = ?6,
    completed_at = ?7, updated_at = ?8, resumed_at = ?9, resumed_by = ?10, nodes_executed = ?11,
    current_path = ?12, waited = ?13, error = ?14
WHERE execution = ?1
