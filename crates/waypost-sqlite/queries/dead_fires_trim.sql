-- trim_triggers: dead letters before a time. Served by dead_fires_old.
DELETE FROM dead_fires WHERE id IN (SELECT id FROM dead_fires WHERE at < ?1 LIMIT ?2)
