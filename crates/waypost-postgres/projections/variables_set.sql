-- projector: nodes set variables. Served by the key of variable_rows.
INSERT INTO variable_rows (execution, variable, name, value)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[])
ON CONFLICT (execution, variable) DO UPDATE SET value = excluded.value
