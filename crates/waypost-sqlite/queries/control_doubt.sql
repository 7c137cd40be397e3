-- doubt: an execution of this owner is about to be decided. Served by the key of control.
UPDATE control SET doubt = crashes > 0 WHERE execution = ?1 AND owner = ?2
