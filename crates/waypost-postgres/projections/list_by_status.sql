-- list: those of a status before one, newest first. Served by execution_rows_by_status.
SELECT execution FROM execution_rows WHERE status = $3 AND execution < $1
ORDER BY execution DESC LIMIT $2
