-- list: of a workflow and a status. Served by execution_rows_by_workflow_status.
SELECT execution, status, key, workflow_name, version, created_at, completed_at, nodes_executed,
       error, current_node, resume_at
FROM listed WHERE workflow = ?4 AND status = ?3 AND execution < ?1
ORDER BY execution DESC LIMIT ?2
