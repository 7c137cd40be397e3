-- projector, lag, feed_end: the last frame of the log. Served by the key of frames.
SELECT coalesce(max(id), 0) FROM frames
