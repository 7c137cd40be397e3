-- events: the first seq of the frame that holds a seq. Served by frames_by_execution.
SELECT first_seq FROM frames WHERE execution = ?1 AND first_seq <= ?2
ORDER BY first_seq DESC LIMIT 1
