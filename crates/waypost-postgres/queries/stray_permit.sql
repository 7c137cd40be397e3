-- inspect: rows of executions that have no log. Scans permits; each is looked up by the key of frames.
SELECT s.execution FROM permits AS s
WHERE NOT EXISTS (SELECT 1 FROM frames AS f WHERE f.execution = s.execution)
