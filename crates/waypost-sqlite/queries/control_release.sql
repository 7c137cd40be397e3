-- heartbeat, claim: everything that a dead instance owned is ready. Scans control: once for each
-- instance that dies.
UPDATE control SET owner = NULL, ready = 1 WHERE owner = ?1
