-- inspect: the nodes of executions. Served by the key of node_rows.
SELECT execution, path, status, attempt, started_at, completed_at, output, branch
FROM node_rows WHERE execution = ANY($1)
