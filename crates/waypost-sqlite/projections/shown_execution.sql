-- inspect: what the view of an execution leaves out. Served by the key of execution_rows.
SELECT key, created_at, output FROM execution_rows WHERE execution = ?1
