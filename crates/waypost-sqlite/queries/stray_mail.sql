-- inspect: rows of executions that have no log. Scans inbox; each is looked up by frames_by_execution.
SELECT DISTINCT execution FROM inbox
WHERE NOT EXISTS (SELECT 1 FROM frames WHERE frames.execution = inbox.execution)
