-- projector: the next frames of the log, in the order of commits. Served by the key of frames.
SELECT id, execution, first_seq, at, checksum, body, decided_at FROM frames WHERE id > ?1
ORDER BY id LIMIT ?2
