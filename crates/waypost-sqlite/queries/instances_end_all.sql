-- open: the lock proves that every other engine is dead. Served by instances_alive.
UPDATE instances SET alive_until = NULL WHERE alive_until IS NOT NULL
