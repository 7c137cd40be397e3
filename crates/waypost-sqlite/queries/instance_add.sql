-- append, claim: an instance that never announced itself, and so is not alive.
INSERT INTO instances (id, alive_until, fold) VALUES (?1, NULL, 0)
