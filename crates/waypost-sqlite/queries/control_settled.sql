-- append: an execution that was in hand at a death is decided; ?2: it has made progress. Served by
-- the key of control.
UPDATE control SET doubt = 0, crashes = iif(?2, 0, crashes) WHERE execution = ?1
