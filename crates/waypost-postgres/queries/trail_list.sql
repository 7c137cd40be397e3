-- access: the trail before a place, newest first. Served by the key of trail.
SELECT id, at, actor, address, action, subject, status FROM trail
WHERE id < $1 ORDER BY id DESC LIMIT $2
