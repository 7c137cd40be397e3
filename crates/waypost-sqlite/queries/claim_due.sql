-- claim: executions that are due by ?4, by time; ?3 as in claim_ready. Served by control_due.
SELECT execution FROM control
WHERE owner IS NULL AND ready = 0 AND next_due IS NOT NULL AND next_due <= ?4 AND requires <= ?1
  AND crashes < 2
  AND (?3 IS NULL OR execution IN (SELECT value FROM json_each(?3)))
ORDER BY next_due, execution LIMIT ?2
