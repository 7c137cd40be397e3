-- list: the columns that a filter tests; the input, which can be large, only if ?2. Served by the
-- key of execution_rows.
SELECT created_at, key, error, labels, iif(?2, input, '') FROM execution_rows WHERE execution = ?1
