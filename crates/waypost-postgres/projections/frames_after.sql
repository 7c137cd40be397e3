-- projector: the frames of executions ($1) after what their rows show ($2), at most $3. Served by the key
-- of frames.
SELECT f.execution, f.first_seq, f.last_seq, f.at, f.checksum, f.body
FROM unnest($1::bigint[], $2::bigint[]) AS behind (execution, projected)
CROSS JOIN LATERAL (
    SELECT * FROM frames
    WHERE frames.execution = behind.execution AND frames.first_seq > behind.projected
    ORDER BY frames.first_seq LIMIT $3
) AS f
ORDER BY f.execution, f.first_seq LIMIT $3
