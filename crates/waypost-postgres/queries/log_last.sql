-- repair: the last frame of a log. Served by the key of frames.
SELECT first_seq, append_id, last_seq FROM frames WHERE execution = $1 ORDER BY first_seq DESC LIMIT 1
