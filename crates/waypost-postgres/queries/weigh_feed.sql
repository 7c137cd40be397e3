-- weigh: bytes of the next frames after place $1, at most $2 frames, up to the one that reaches $3 bytes. Served
-- by frames_by_place.
SELECT coalesce(sum(page.bytes), 0)::int8
FROM (
    SELECT f.bytes, sum(f.bytes) OVER (ORDER BY f.place) - f.bytes AS before
    FROM (
        SELECT place, octet_length(body) AS bytes FROM frames WHERE place > $1 ORDER BY place LIMIT $2
    ) AS f
) AS page
WHERE page.before < $3
