-- settle_dead_fire: once. Served by the key of dead_fires.
UPDATE dead_fires SET state = $2 WHERE id = $1 AND state = 0
