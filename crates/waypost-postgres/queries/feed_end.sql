-- feed: the place before which nothing new can appear, and the last frame there is. Not in one
-- statement with those that read: the place must not be newer than their snapshot. Served by
-- frames_by_place.
SELECT waypost_place_end(), coalesce((SELECT max(place) FROM frames), 0)
