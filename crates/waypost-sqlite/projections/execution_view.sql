-- projector: the row to go on from. Served by the keys of execution_rows and paths.
SELECT e.seq, e.status, e.generation, e.epoch, e.started_at, e.completed_at, e.updated_at,
       e.resumed_at, e.resumed_by, e.nodes_executed, p.path, e.waited, e.error
FROM execution_rows AS e LEFT JOIN paths AS p ON p.id = e.current_path
WHERE e.execution = ?1
