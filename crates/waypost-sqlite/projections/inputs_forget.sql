-- inspect: the rows of one execution are derived again. Served by the key of input_rows.
DELETE FROM input_rows WHERE execution = ?1
