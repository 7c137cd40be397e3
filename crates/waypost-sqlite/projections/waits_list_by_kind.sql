-- list: open waits of a kind behind a place, newest execution first. Served by wait_rows_by_kind.
SELECT o.execution, o.seq, e.key, w.name, p.path, o.kind, o.opened_at, coalesce(o.resume_at, o.expires_at),
       o.detail
FROM wait_rows AS o INDEXED BY wait_rows_by_kind
CROSS JOIN execution_rows AS e ON e.execution = o.execution
CROSS JOIN workflows AS w ON w.id = e.workflow
CROSS JOIN paths AS p ON p.id = o.path
WHERE o.kind = ?4 AND o.status = 0 AND (o.execution, o.seq) < (?1, ?2)
ORDER BY o.execution DESC, o.seq DESC
LIMIT ?3
