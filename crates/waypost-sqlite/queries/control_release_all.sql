-- open: the lock proves that every other engine is dead, and none of those left in order. Scans control,
-- once for each start.
UPDATE control SET owner = NULL, ready = 1, crashes = crashes + (crashes = 0 OR doubt), doubt = 0
WHERE owner IS NOT NULL
