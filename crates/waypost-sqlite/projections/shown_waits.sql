-- inspect: the open waits of an execution. Served by wait_rows_open.
SELECT o.seq, p.path, coalesce(o.resume_at, o.expires_at)
FROM wait_rows AS o CROSS JOIN paths AS p ON p.id = o.path
WHERE o.execution = ?1 AND o.status = 0
