-- projector: the rendered config of a node, whose last attempt counts. Served by the key of input_rows.
INSERT OR REPLACE INTO input_rows (execution, path, input) VALUES (?1, ?2, ?3)
