-- file: the names of the statuses of nodes.
INSERT INTO node_statuses (code, name) VALUES (?1, ?2)
