-- weigh: bytes of the frames of an execution from the one that holds seq $2 on, at most $3 frames, up to the one
-- that reaches $4 bytes. Served by the key of frames.
SELECT coalesce(sum(page.bytes), 0)::int8
FROM (
    SELECT f.bytes, sum(f.bytes) OVER (ORDER BY f.first_seq) - f.bytes AS before
    FROM (
        SELECT first_seq, octet_length(body) AS bytes FROM frames
        WHERE execution = $1 AND last_seq >= $2 AND first_seq >= coalesce(
            (SELECT h.first_seq FROM frames AS h WHERE h.execution = $1 AND h.first_seq <= $2
             ORDER BY h.first_seq DESC LIMIT 1), 1)
        ORDER BY first_seq LIMIT $3
    ) AS f
) AS page
WHERE page.before < $4
