-- feed: the last frame before a place. Served by frames_by_place.
SELECT coalesce(max(place), 0) FROM frames WHERE place < $1
