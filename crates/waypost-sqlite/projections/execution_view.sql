-- projector, inspect: the row to continue from, and the columns that a check compares besides. Served by the keys of
-- execution_rows and paths.
SELECT {columns}, e.key, e.created_at, e.output, e.definition FROM execution_rows AS e
LEFT JOIN paths AS current_node ON current_node.id = e.current_node
WHERE e.execution = ?1
