-- lag: the place up to which all rows are known to be shown, the time of the last frame before it, and
-- how many frames come after it (counted up to $1). Scans projectors; served by frames_by_place.
WITH shown AS MATERIALIZED (
    SELECT coalesce(min(done), 9223372036854775807) AS place FROM projectors
)
SELECT shown.place,
       (SELECT at FROM frames WHERE frames.place < shown.place ORDER BY frames.place DESC LIMIT 1),
       (SELECT count(*) FROM (SELECT FROM frames WHERE frames.place >= shown.place
                              ORDER BY frames.place LIMIT $1) AS behind)
FROM shown
