-- inspect: the last frame of each execution that its rows have to show. Scans projectors; served by the key
-- of frames.
WITH shown AS MATERIALIZED (
    SELECT coalesce(min(done), 9223372036854775807) AS place FROM projectors
)
SELECT wanted.execution, coalesce((
    SELECT f.first_seq FROM frames AS f
    WHERE f.execution = wanted.execution AND f.place < (SELECT place FROM shown)
    ORDER BY f.first_seq DESC LIMIT 1), 0)
FROM unnest($1::bigint[]) AS wanted (execution)
