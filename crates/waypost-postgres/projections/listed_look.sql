-- list: what a filter looks at; the input, which can be large, only where $2 says so. Served by the key of
-- execution_rows.
SELECT execution, created_at, key, error, labels, CASE WHEN $2 THEN input ELSE '' END
FROM execution_rows WHERE execution = ANY($1) ORDER BY execution DESC
