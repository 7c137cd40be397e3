-- claim: the new owner of an execution. Served by the key of control.
UPDATE control SET owner = ?2, epoch = epoch + 1, ready = 0, doubt = crashes > 0 WHERE execution = ?1
