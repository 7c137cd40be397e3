-- projector: changes in a node's row. Served by the key of node_rows.
INSERT INTO node_rows (execution, path, {columns}) VALUES (?1, ?2, {values})
ON CONFLICT (execution, path) DO UPDATE SET {merges}
