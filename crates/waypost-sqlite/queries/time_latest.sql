-- every write: the latest time given to a frame. Served by the key of frames.
SELECT at FROM frames ORDER BY id DESC LIMIT 1
