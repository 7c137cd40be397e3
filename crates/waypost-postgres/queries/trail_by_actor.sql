-- access: the trail of one actor before a place, newest first. Served by trail_by_actor.
SELECT id, at, actor, address, action, subject, status FROM trail
WHERE sha256(actor) = sha256($3) AND id < $1 ORDER BY id DESC LIMIT $2
