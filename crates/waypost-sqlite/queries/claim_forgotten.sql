-- claim, as a reconciliation: executions of an owner that are not among those it has in memory (?4,
-- a JSON array); ?3 as in claim_ready, ?5 and ?6 as its ?4 and ?5. Served by a scan of control: rare,
-- and on a reader, which blocks no writer.
SELECT execution FROM control
WHERE owner = (SELECT number FROM instances WHERE id = ?1)
  AND execution NOT IN (SELECT value FROM json_each(?4))
  AND (?3 IS NULL OR execution IN (SELECT value FROM json_each(?3)))
  AND (?5 IS NULL OR execution % ?5 = ?6)
ORDER BY execution LIMIT ?2
