-- find: the newest execution. Served by the key of frames.
SELECT max(execution) FROM frames
