-- projector: the frames of an execution after seq ?2 and up to ?3. Served by frames_by_execution.
SELECT first_seq, decided_at, checksum, body FROM frames
WHERE execution = ?1 AND first_seq > ?2 AND first_seq <= ?3
ORDER BY first_seq
