-- list: what a filter looks at; the input, which can be large, only where ?2 says so. Served by the key
-- of execution_rows.
SELECT created_at, key, error, labels, iif(?2, input, '') FROM execution_rows WHERE execution = ?1
