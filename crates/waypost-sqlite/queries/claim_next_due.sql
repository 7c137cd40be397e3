-- claim: when the next execution is due that is not due by ?3; ?2 as ?3 in claim_ready, ?4
-- and ?5 as there. Served by control_due.
SELECT next_due FROM control
WHERE owner IS NULL AND ready = 0 AND next_due IS NOT NULL AND next_due > ?3 AND requires <= ?1
  AND (?2 IS NULL OR execution IN (SELECT value FROM json_each(?2)))
  AND (?4 IS NULL OR execution % ?4 = ?5)
ORDER BY next_due, execution LIMIT 1
