-- open_executions: the execution has ended. Served by the key of trigger_fires.
UPDATE trigger_fires SET open = 0 WHERE place = ?1
