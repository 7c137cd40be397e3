-- inspect: the next executions that have a row. Served by the key of execution_rows.
SELECT execution FROM execution_rows WHERE execution > ?1 ORDER BY execution LIMIT ?2
