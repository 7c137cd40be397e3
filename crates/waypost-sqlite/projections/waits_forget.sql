-- inspect: the rows of one execution are derived again. Served by the key of wait_rows.
DELETE FROM wait_rows WHERE execution = ?1
