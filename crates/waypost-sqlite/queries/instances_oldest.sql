-- heartbeat: the lowest fold of those that are alive. Scans instances, which are few.
SELECT min(fold) FROM instances WHERE alive_until > ?1
