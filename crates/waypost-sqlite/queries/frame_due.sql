-- inspect: the last frame of an execution among the first ?2 of the log. Served by
-- frames_by_execution.
SELECT first_seq FROM frames WHERE execution = ?1 AND id <= ?2 ORDER BY first_seq DESC LIMIT 1
