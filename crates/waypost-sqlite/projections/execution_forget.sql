-- inspect: the rows of one execution are derived again. Served by the key of execution_rows.
DELETE FROM execution_rows WHERE execution = ?1
