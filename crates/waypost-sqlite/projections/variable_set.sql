-- projector: a node set a variable. Served by the key of variable_rows.
INSERT INTO variable_rows (execution, name, value) VALUES (?1, ?2, ?3)
ON CONFLICT (execution, name) DO UPDATE SET value = excluded.value
