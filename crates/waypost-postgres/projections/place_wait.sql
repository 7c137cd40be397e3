-- wait: where the log ends, and the place before which all rows are projected. Served by frames_by_place and
-- the key of sweeper.
SELECT coalesce((SELECT max(place) FROM frames), -1), place FROM sweeper
