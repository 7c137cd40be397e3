-- load, claim: how many of executions ($1), from the first on, can be read at once: those that have
-- fewer than $3 bytes together, in snapshots, in frames (at most $4 of each) from a start by $2, as
-- in frames_load, and in mail. Reads no more than that, and the next one. Served by the keys of
-- frames and snapshots and by inbox_by_execution.
WITH RECURSIVE taken (n, bytes) AS (
    SELECT 0, 0::int8
    UNION ALL
    SELECT taken.n + 1, taken.bytes + (
        SELECT coalesce(from_snapshot.bytes, 0)
             + coalesce((SELECT sum(octet_length(f.body) + 200)
                         FROM (SELECT o.body FROM frames AS o
                               WHERE o.execution = a.execution
                                 AND o.first_seq >= CASE WHEN a.start = -2 THEN (
                                         SELECT l.first_seq FROM frames AS l
                                         WHERE l.execution = a.execution
                                         ORDER BY l.first_seq DESC LIMIT 1)
                                     ELSE coalesce(from_snapshot.first_seq, 0) END
                               ORDER BY o.first_seq LIMIT $4) AS f), 0)
             + coalesce((SELECT sum(octet_length(i.body) + 200) FROM inbox AS i
                         WHERE i.execution = a.execution), 0)
        FROM (SELECT ($1::int8[])[taken.n + 1], ($2::int8[])[taken.n + 1]) AS a (execution, start)
        LEFT JOIN LATERAL (
            SELECT s.first_seq, octet_length(s.body) AS bytes FROM snapshots AS s
            WHERE s.execution = a.execution AND a.start = -1 OFFSET 0
        ) AS from_snapshot ON true
    )::int8
    FROM taken WHERE taken.n < cardinality($1) AND taken.bytes < $3
)
SELECT coalesce(max(n), 0)::int8 FROM taken WHERE bytes < $3
