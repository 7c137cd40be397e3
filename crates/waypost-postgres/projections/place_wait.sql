-- settle: where the log ends, and the place up to which this process' rows are marked as shown. Served by
-- frames_by_place and the key of projectors.
SELECT coalesce((SELECT max(place) FROM frames), -1), (SELECT done FROM projectors WHERE id = $1)
