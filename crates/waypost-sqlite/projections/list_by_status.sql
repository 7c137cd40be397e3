-- list: of a status. Served by execution_rows_by_status.
SELECT execution, status, key, workflow_name, version, created_at, completed_at, nodes_executed,
       error, current_node, resume_at
FROM listed WHERE status = ?3 AND execution < ?1 AND ?4 IS NULL
ORDER BY execution DESC LIMIT ?2
