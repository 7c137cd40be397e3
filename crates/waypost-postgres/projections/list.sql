-- list: executions before one, newest first. Served by the key of execution_rows.
SELECT execution FROM execution_rows WHERE execution < $1 ORDER BY execution DESC LIMIT $2
