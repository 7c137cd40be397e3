-- projector: nodes wait, or have waited. Served by the key of wait_rows.
INSERT INTO wait_rows (execution, seq, node, opened_at, closed_at, resume_at, expires_at, status, kind, path,
    detail)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
    $7::bigint[], $8::smallint[], $9::text[], $10::bytea[], $11::bytea[])
