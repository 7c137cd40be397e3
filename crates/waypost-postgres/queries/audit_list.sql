-- access: the audit log before a place, newest first. Served by the key of audit.
SELECT id, at, actor, address, action, subject, status FROM audit
WHERE id < $1 ORDER BY id DESC LIMIT $2
