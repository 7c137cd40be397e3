-- projector, inspect: the rows to continue from; the output, which can be large, only if $2. Served by
-- the key of execution_rows.
SELECT {columns}, execution, projected, key, created_at, definition,
       CASE WHEN $2 THEN output END
FROM execution_rows WHERE execution = ANY($1)
