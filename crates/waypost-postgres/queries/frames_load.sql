-- load, claim: frames of executions, from a start by $2: those after a seq, -1 from its snapshot on,
-- -2 the last one. The frame before the first one comes too, as its parent, without its body. Of each
-- at most $4, and no more once their bodies have $3 bytes. Served by the keys of frames and snapshots.
SELECT f.execution, f.first_seq, f.last_seq, f.append_id, f.instance, f.epoch, f.decided_at, f.at,
       f.requires, f.checksum, CASE WHEN f.first_seq >= w.wanted THEN f.body END
FROM (
    SELECT b.execution, b.wanted,
           coalesce((SELECT p.first_seq FROM frames AS p
                     WHERE p.execution = b.execution AND p.first_seq < b.wanted
                     ORDER BY p.first_seq DESC LIMIT 1), b.wanted) AS from_seq
    FROM (
        SELECT a.execution,
               CASE
                   WHEN a.start >= 0 THEN a.start + 1
                   WHEN a.start = -1 THEN coalesce((SELECT s.first_seq FROM snapshots AS s
                                         WHERE s.execution = a.execution), 0)
                   ELSE coalesce((SELECT l.first_seq FROM frames AS l
                                  WHERE l.execution = a.execution
                                  ORDER BY l.first_seq DESC LIMIT 1), 0)
               END AS wanted
        FROM unnest($1::int8[], $2::int8[]) AS a (execution, start)
        OFFSET 0
    ) AS b
    OFFSET 0
) AS w
CROSS JOIN LATERAL (
    SELECT n.*, sum(octet_length(n.body)) FILTER (WHERE n.first_seq >= w.wanted)
                    OVER (ORDER BY n.first_seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM (SELECT o.* FROM frames AS o
          WHERE o.execution = w.execution AND o.first_seq >= w.from_seq
          ORDER BY o.first_seq LIMIT $4) AS n
) AS f
WHERE coalesce(f.before, 0) < $3
ORDER BY f.execution, f.first_seq
