-- claim: executions that are due by ?4, by time; ?3 as in claim_ready, ?5 and ?6 as its ?4 and
-- ?5. Served by control_due.
SELECT execution FROM control
WHERE owner IS NULL AND ready = 0 AND next_due IS NOT NULL AND next_due <= ?4 AND requires <= ?1
  AND crashes < 2
  AND (?3 IS NULL OR execution IN (SELECT value FROM json_each(?3)))
  AND (?5 IS NULL OR execution % ?5 = ?6)
ORDER BY next_due, execution LIMIT ?2
