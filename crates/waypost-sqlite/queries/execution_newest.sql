-- find: the execution of the highest number. Served by frames_by_execution.
SELECT execution FROM frames ORDER BY execution DESC LIMIT 1
