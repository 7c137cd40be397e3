-- list: those of a workflow before one, newest first. Served by execution_rows_by_workflow.
SELECT execution FROM execution_rows WHERE workflow = ?2 AND execution < ?1 ORDER BY execution DESC
