-- inspect: rows of executions that have no log. Scans control; each is looked up by frames_by_execution.
SELECT DISTINCT execution FROM control
WHERE NOT EXISTS (SELECT 1 FROM frames WHERE frames.execution = control.execution)
