-- list: of a workflow. Served by execution_rows_by_workflow.
SELECT execution, status, key, workflow_name, version, created_at, completed_at, nodes_executed,
       error, current_node, resume_at
FROM listed WHERE workflow = ?4 AND execution < ?1 AND ?3 IS NULL
ORDER BY execution DESC LIMIT ?2
