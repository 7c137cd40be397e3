-- projector: changes in the rows of nodes. Served by the key of node_rows.
INSERT INTO node_rows (execution, node, path, input, {columns})
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], {arrays})
ON CONFLICT (execution, node) DO UPDATE SET input = coalesce(excluded.input, node_rows.input), {merges}
