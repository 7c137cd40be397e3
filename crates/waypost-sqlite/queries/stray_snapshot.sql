-- inspect: rows of executions that have no log. Scans snapshots; each is looked up by frames_by_execution.
SELECT DISTINCT execution FROM snapshots
WHERE NOT EXISTS (SELECT 1 FROM frames WHERE frames.execution = snapshots.execution)
