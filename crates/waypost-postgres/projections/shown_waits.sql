-- inspect: the open waits of executions. Served by wait_rows_open.
SELECT execution, seq, path, coalesce(resume_at, expires_at)
FROM wait_rows WHERE execution = ANY($1) AND status = 0
