-- migrate: if this database counts fewer transactions than the log has seen, as a restored copy
-- does, later frames would come before earlier ones. Served by frames_by_place.
UPDATE cluster SET place_base = place_base + behind.places
FROM (SELECT (SELECT max(place) FROM frames) - waypost_place() + 65536 AS places) AS behind
WHERE behind.places > 65536
