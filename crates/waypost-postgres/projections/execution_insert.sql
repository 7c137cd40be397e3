-- projector: rows of executions that have none. Returns those that were written: not those that
-- another process has written meanwhile. Served by the key of execution_rows.
INSERT INTO execution_rows (execution, projected, workflow_hash, version, definition, workflow, {columns})
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[],
    {arrays})
ON CONFLICT (execution) DO NOTHING
RETURNING execution
