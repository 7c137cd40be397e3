-- list: the columns that a filter tests; the input and the output, which can be large, only if ?2 and ?3. Served
-- by the key of execution_rows.
SELECT created_at, key, error, labels, iif(?2, input, ''), iif(?3, output, '')
FROM execution_rows WHERE execution = ?1
