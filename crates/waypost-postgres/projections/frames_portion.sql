-- projector, rebuild: how many of executions ($1), from the first on, have fewer than $3 frames and
-- $4 bytes together beyond their rows ($2). Reads no more than that, and the next one. Served by
-- the key of frames.
WITH RECURSIVE taken (n, frames, bytes) AS (
    SELECT 0, 0::int8, 0::int8
    UNION ALL
    SELECT taken.n + 1, taken.frames + next.frames, taken.bytes + next.bytes
    FROM taken
    CROSS JOIN LATERAL (
        SELECT count(*) AS frames, coalesce(sum(octet_length(f.body)), 0)::int8 AS bytes
        FROM (SELECT frames.body FROM frames
              WHERE frames.execution = ($1::int8[])[taken.n + 1]
                AND frames.first_seq > ($2::int8[])[taken.n + 1]
              ORDER BY frames.first_seq LIMIT $3) AS f
    ) AS next
    WHERE taken.n < cardinality($1) AND taken.frames < $3 AND taken.bytes < $4
)
SELECT coalesce(max(n), 0)::int8 FROM taken WHERE frames < $3 AND bytes < $4
