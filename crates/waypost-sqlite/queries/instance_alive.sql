-- claim: does the lease of an instance last? Served by the key of instances.
SELECT EXISTS (SELECT 1 FROM instances WHERE number = ?1 AND alive_until > ?2)
