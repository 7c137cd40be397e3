-- append: a trigger has fired without moving its cursor. Served by the key of triggers.
UPDATE triggers SET last_fired_at = ?2 WHERE number = ?1
