-- inspect: control rows without a log. Scans control; served by the key of frames.
SELECT execution FROM control AS c
WHERE NOT EXISTS (SELECT FROM frames AS f WHERE f.execution = c.execution)
