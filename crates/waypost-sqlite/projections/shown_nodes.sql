-- inspect: the nodes of an execution. Served by the keys of node_rows and paths.
SELECT {columns}, p.path FROM node_rows AS e CROSS JOIN paths AS p ON p.id = e.path
WHERE e.execution = ?1
