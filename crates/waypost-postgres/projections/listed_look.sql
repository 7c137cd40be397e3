-- list: the columns that a filter tests; the input and the output, which can be large, only if $2 and $3. Served
-- by the key of execution_rows.
SELECT execution, created_at, key, error, labels, CASE WHEN $2 THEN input ELSE '' END,
       CASE WHEN $3 THEN output ELSE '' END
FROM execution_rows WHERE execution = ANY($1) ORDER BY execution DESC
