-- projector: how an execution ended, or that it did not. Served by the key of execution_rows.
UPDATE execution_rows SET failure = ?2, output = ?3 WHERE execution = ?1
