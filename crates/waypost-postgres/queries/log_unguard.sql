-- repair: takes away what log_guard put there. Served by the key of frames.
DELETE FROM frames WHERE execution = $1 AND first_seq = $2 AND append_id = $3
