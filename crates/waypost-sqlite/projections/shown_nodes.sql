-- inspect: the nodes of an execution. Served by the keys of node_rows and paths.
SELECT p.path, n.status, n.attempt, n.started_at, n.completed_at, n.output, n.branch
FROM node_rows AS n CROSS JOIN paths AS p ON p.id = n.path
WHERE n.execution = ?1
