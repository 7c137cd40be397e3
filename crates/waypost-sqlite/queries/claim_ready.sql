-- claim: executions that are ready, by number; ?3 is NULL or a JSON array of the only ones wanted;
-- where ?4 is not NULL, none but those whose number modulo ?4 is ?5. Served by control_ready.
SELECT execution FROM control
WHERE owner IS NULL AND ready = 1 AND requires <= ?1 AND crashes < 2
  AND (?3 IS NULL OR execution IN (SELECT value FROM json_each(?3)))
  AND (?4 IS NULL OR execution % ?4 = ?5)
ORDER BY execution LIMIT ?2
