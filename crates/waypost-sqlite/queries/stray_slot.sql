-- audit: rows of executions that have no log. Scans slots; each is looked up by frames_by_execution.
SELECT execution FROM slots
WHERE NOT EXISTS (SELECT 1 FROM frames WHERE frames.execution = slots.execution)
