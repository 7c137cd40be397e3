-- projector: what changed in a node's row. Served by the key of node_rows.
INSERT INTO node_rows (execution, path, status, attempt, started_at, completed_at, output, branch,
    failure, retries)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (execution, path) DO UPDATE SET
    status = excluded.status,
    attempt = coalesce(excluded.attempt, attempt),
    started_at = coalesce(started_at, excluded.started_at),
    completed_at = coalesce(excluded.completed_at, completed_at),
    output = coalesce(excluded.output, output),
    branch = coalesce(excluded.branch, branch),
    failure = coalesce(excluded.failure, failure),
    retries = CASE WHEN excluded.retries IS NULL THEN retries
                   WHEN retries IS NULL THEN excluded.retries
                   ELSE retries || ',' || excluded.retries END
