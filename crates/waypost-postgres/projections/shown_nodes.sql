-- inspect: the nodes of executions. Served by the key of node_rows.
SELECT {columns}, execution, path FROM node_rows WHERE execution = ANY($1)
