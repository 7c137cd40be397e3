-- inspect: the rows of one execution are derived again. Served by the key of variable_rows.
DELETE FROM variable_rows WHERE execution = ?1
