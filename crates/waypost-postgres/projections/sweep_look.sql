-- sweeper: the place before which all rows are projected, the place before which no frame can appear any
-- more, and whether there are frames after the first. Served by the keys of sweeper and frames_by_place.
SELECT s.place, waypost_place_end(), EXISTS (SELECT FROM frames WHERE frames.place >= s.place)
FROM sweeper AS s
