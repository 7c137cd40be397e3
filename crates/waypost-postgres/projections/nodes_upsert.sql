-- projector: what changed in the rows of nodes. Served by the key of node_rows.
INSERT INTO node_rows AS n (execution, node, attempt, started_at, completed_at, status, path, branch,
    output, failure, retries)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::smallint[],
    $7::bytea[], $8::bytea[], $9::bytea[], $10::bytea[], $11::bytea[])
ON CONFLICT (execution, node) DO UPDATE SET
    status = excluded.status,
    attempt = coalesce(excluded.attempt, n.attempt),
    started_at = coalesce(n.started_at, excluded.started_at),
    completed_at = coalesce(excluded.completed_at, n.completed_at),
    output = coalesce(excluded.output, n.output),
    branch = coalesce(excluded.branch, n.branch),
    failure = coalesce(excluded.failure, n.failure),
    retries = CASE WHEN excluded.retries IS NULL THEN n.retries
                   WHEN n.retries IS NULL THEN excluded.retries
                   ELSE n.retries || ','::bytea || excluded.retries END
