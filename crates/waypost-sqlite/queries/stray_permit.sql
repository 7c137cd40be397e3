-- inspect: rows of executions that have no log. Scans permits; each is looked up by frames_by_execution.
SELECT execution FROM permits
WHERE NOT EXISTS (SELECT 1 FROM frames WHERE frames.execution = permits.execution)
