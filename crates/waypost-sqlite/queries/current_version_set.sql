-- define: moves the pointer of a workflow. Served by the primary key.
INSERT INTO current_versions (name, version) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET version = excluded.version
