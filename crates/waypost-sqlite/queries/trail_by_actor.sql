-- access: the trail of one actor before a place, newest first. Served by trail_by_actor.
SELECT id, at, actor, address, action, subject, status FROM trail
WHERE actor = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2
