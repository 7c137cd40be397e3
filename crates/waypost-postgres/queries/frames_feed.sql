-- feed: the next frames after place $1 and before $2, at most $3, and no more once their bodies have $4
-- bytes, with the keys of their executions and the frames before them. Served by frames_by_place and the
-- keys of frames and submissions.
SELECT f.execution, f.first_seq, f.last_seq, f.append_id, f.instance, f.epoch, f.decided_at, f.at,
       f.requires, f.checksum, f.body, f.place, s.key, p.first_seq, p.append_id
FROM (
    SELECT n.*, sum(octet_length(n.body)) OVER (ORDER BY n.place) - octet_length(n.body) AS before
    FROM (
        SELECT * FROM frames WHERE place > $1 AND place < $2 ORDER BY place LIMIT $3
    ) AS n
) AS f
LEFT JOIN submissions AS s ON s.execution = f.execution
LEFT JOIN LATERAL (
    SELECT b.first_seq, b.append_id FROM frames AS b
    WHERE b.execution = f.execution AND b.first_seq < f.first_seq
    ORDER BY b.first_seq DESC LIMIT 1
) AS p ON true
WHERE f.before < $4
ORDER BY f.place
