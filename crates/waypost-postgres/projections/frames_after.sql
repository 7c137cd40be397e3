-- projector: the frames of executions ($1) after what their rows show ($2), at most $3, and no more once
-- their bodies have $4 bytes. Served by the key of frames.
SELECT f.execution, f.first_seq, f.last_seq, f.decided_at, f.checksum, f.body
FROM (
    SELECT n.*, sum(octet_length(n.body)) OVER (ORDER BY n.execution, n.first_seq)
                - octet_length(n.body) AS before
    FROM (
        SELECT b.* FROM unnest($1::bigint[], $2::bigint[]) AS behind (execution, projected)
        CROSS JOIN LATERAL (
            SELECT * FROM frames
            WHERE frames.execution = behind.execution AND frames.first_seq > behind.projected
            ORDER BY frames.first_seq LIMIT $3
        ) AS b
        ORDER BY b.execution, b.first_seq LIMIT $3
    ) AS n
) AS f
WHERE f.before < $4
ORDER BY f.execution, f.first_seq
