-- claim: instances whose lease ran out and was not ended yet. Served by instances_alive.
SELECT number FROM instances WHERE alive_until IS NOT NULL AND alive_until <= ?1
