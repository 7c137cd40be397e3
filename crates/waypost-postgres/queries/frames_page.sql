-- events: the next frames of an execution from the one that holds seq $2 on, at most $3, and no more once
-- their bodies have $4 bytes. Served by the key of frames.
SELECT execution, first_seq, last_seq, append_id, instance, epoch, decided_at, at, requires, checksum, body
FROM (
    SELECT f.*, sum(octet_length(f.body)) OVER (ORDER BY f.first_seq) - octet_length(f.body) AS before
    FROM (
        SELECT * FROM frames
        WHERE execution = $1 AND first_seq >= coalesce(
            (SELECT h.first_seq FROM frames AS h WHERE h.execution = $1 AND h.first_seq <= $2
             ORDER BY h.first_seq DESC LIMIT 1), 1)
        ORDER BY first_seq LIMIT $3
    ) AS f
) AS page
WHERE before < $4
ORDER BY first_seq
