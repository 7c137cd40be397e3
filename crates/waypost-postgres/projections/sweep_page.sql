-- sweeper: of the next $3 frames from place $1 on and before $2, the executions whose rows do not show
-- them, and where these frames end. Served by frames_by_place and the key of execution_rows.
WITH next AS MATERIALIZED (
    SELECT place, execution, last_seq FROM frames WHERE place >= $1 AND place < $2
    ORDER BY place LIMIT $3
), reached AS MATERIALIZED (
    SELECT execution, max(last_seq) AS last_seq FROM next GROUP BY execution
)
SELECT (SELECT max(place) FROM next),
       (SELECT count(*) FROM next),
       (SELECT coalesce(array_agg(reached.execution ORDER BY reached.execution), '{}') FROM reached
        LEFT JOIN execution_rows AS e ON e.execution = reached.execution
        WHERE e.projected IS NULL OR e.projected < reached.last_seq)
