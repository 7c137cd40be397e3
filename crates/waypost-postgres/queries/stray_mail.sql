-- inspect: mail without a log. Scans inbox; served by the key of frames.
SELECT DISTINCT execution FROM inbox AS i
WHERE NOT EXISTS (SELECT FROM frames AS f WHERE f.execution = i.execution)
