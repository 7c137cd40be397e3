-- projector: the place before which stands everything that is committed, also where somebody else's
-- transaction is older and still under way. Served by frames_by_place.
SELECT greatest(waypost_place_end(), coalesce((SELECT max(place) FROM frames), -1) + 1)
