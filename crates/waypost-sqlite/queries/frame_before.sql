-- load: the parent of the first frame that is loaded. Served by frames_by_execution.
SELECT first_seq, append_id FROM frames WHERE execution = ?1 AND first_seq < ?2
ORDER BY first_seq DESC LIMIT 1
