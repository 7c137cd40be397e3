-- open: the lock proves that every other engine is dead. Scans control, once for each start.
UPDATE control SET owner = NULL, ready = 1 WHERE owner IS NOT NULL
