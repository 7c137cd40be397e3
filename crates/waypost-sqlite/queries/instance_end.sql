-- heartbeat, claim: the lease of an instance is over. Served by the key of instances.
UPDATE instances SET alive_until = NULL WHERE number = ?1
