-- append, deliver: an execution names a blob. Served by the key of blob_refs.
INSERT INTO blob_refs (digest, execution) VALUES (?1, ?2) ON CONFLICT DO NOTHING
