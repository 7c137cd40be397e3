-- access: the audit log of one actor before a place, newest first. Served by audit_by_actor.
SELECT id, at, actor, address, action, subject, status FROM audit
WHERE sha256(actor) = sha256($3) AND id < $1 ORDER BY id DESC LIMIT $2
