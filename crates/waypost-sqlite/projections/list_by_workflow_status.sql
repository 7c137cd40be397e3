-- list: those of a workflow and a status before one, newest first. Served by
-- execution_rows_by_workflow_status.
SELECT execution FROM execution_rows WHERE workflow = ?2 AND status = ?3 AND execution < ?1
ORDER BY execution DESC
