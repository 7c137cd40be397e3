-- inspect: when an execution last moved. Served by frames_by_execution.
SELECT at FROM frames WHERE execution = ?1 ORDER BY first_seq DESC LIMIT 1
