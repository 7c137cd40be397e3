-- heartbeat: an instance is alive. Served by the unique key of instances.
INSERT INTO instances (id, alive_until, fold) VALUES (?1, ?2, ?3)
ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until, fold = excluded.fold
