-- projector: the place before which nothing new can appear, and whether there are frames from place $1 on.
-- Served by frames_by_place.
SELECT waypost_place_end(), EXISTS (SELECT FROM frames WHERE place >= $1)
