-- inspect: snapshots without a log. Scans snapshots; served by the key of frames.
SELECT execution FROM snapshots AS s
WHERE NOT EXISTS (SELECT FROM frames AS f WHERE f.execution = s.execution)
