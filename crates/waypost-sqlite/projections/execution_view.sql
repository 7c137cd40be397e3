-- projector, inspect: the row to continue from, and the columns that a check compares besides.
-- Served by the keys of execution_rows and paths.
SELECT {columns}, e.key, e.created_at, e.output FROM execution_rows AS e WHERE e.execution = ?1
