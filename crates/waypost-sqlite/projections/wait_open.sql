-- projector: a node waits. Served by the key of wait_rows.
INSERT INTO wait_rows (execution, seq, path, kind, status, opened_at, resume_at, expires_at,
    detail)
VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, ?7, ?8)
