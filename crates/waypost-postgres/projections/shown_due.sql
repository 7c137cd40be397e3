-- inspect: the last frame of each execution that its rows have to show. Served by the keys of sweeper and
-- frames.
SELECT wanted.execution, coalesce((
    SELECT f.first_seq FROM frames AS f
    WHERE f.execution = wanted.execution AND f.place < (SELECT sweeper.place FROM sweeper)
    ORDER BY f.first_seq DESC LIMIT 1), 0)
FROM unnest($1::bigint[]) AS wanted (execution)
