-- list: one row of a page. Served by the keys of execution_rows, definitions, workflows and paths, and
-- by wait_rows_open.
SELECT execution, status, key, workflow_name, version, created_at, completed_at, nodes_executed,
       error, current_node, resume_at, labels
FROM listed WHERE execution = ?1
