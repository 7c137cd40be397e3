-- heartbeat: an instance is alive. Served by the unique key of instances.
INSERT INTO instances (id, alive_until, fold, about, renewed_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (id) DO UPDATE SET
    alive_until = excluded.alive_until, fold = excluded.fold, about = excluded.about,
    renewed_at = excluded.renewed_at
