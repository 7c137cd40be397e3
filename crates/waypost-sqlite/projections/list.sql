-- list: the newest executions. Served by the key of execution_rows.
SELECT execution, status, key, workflow_name, version, created_at, completed_at, nodes_executed,
       error, current_node, resume_at
FROM listed WHERE execution < ?1 AND ?3 IS NULL AND ?4 IS NULL
ORDER BY execution DESC LIMIT ?2
