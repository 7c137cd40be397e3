-- inspect: the frames of an execution among the first ?2 of the log. Served by frames_by_execution.
SELECT first_seq, decided_at, checksum, body FROM frames WHERE execution = ?1 AND id <= ?2
ORDER BY first_seq
