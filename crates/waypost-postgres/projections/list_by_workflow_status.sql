-- list: those of a workflow and a status before one, newest first. Served by execution_rows_by_workflow.
SELECT execution FROM execution_rows
WHERE workflow_hash = $4 AND workflow = $5 AND status = $3 AND execution < $1
ORDER BY execution DESC LIMIT $2
