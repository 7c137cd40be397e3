-- claim: executions that were in hand at two deaths or more and are ready or due by ?4, the least
-- suspicious first; ?3 as in claim_ready, ?5 and ?6 as its ?4 and ?5. Served by control_suspects.
SELECT execution FROM control
WHERE owner IS NULL AND crashes >= 2 AND (ready = 1 OR next_due <= ?4) AND requires <= ?1
  AND (?3 IS NULL OR execution IN (SELECT value FROM json_each(?3)))
  AND (?5 IS NULL OR execution % ?5 = ?6)
ORDER BY crashes, execution LIMIT ?2
