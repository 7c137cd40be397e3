-- heartbeat, claim: makes everything that an instance owned ready. If it died (?2), and did not
-- stop in order, that counts against the executions it had in hand. Scans control: once for each
-- instance that is gone.
UPDATE control SET owner = NULL, ready = 1, crashes = crashes + (?2 AND (crashes = 0 OR doubt)), doubt = 0
WHERE owner = ?1
