-- projector: columns of an execution that has a row: those that change, or those of its end. Served by
-- the key of execution_rows.
UPDATE execution_rows SET {values} WHERE execution = ?1
