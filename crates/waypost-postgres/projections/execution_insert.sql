-- projector: rows of executions that have none. Gives those that were written: where somebody else was
-- faster, nothing is. Served by the key of execution_rows.
INSERT INTO execution_rows (execution, projected, seq, workflow_hash, nodes_executed, created_at,
    updated_at, started_at, completed_at, resumed_at, deadline, version, generation, epoch, status, waited,
    definition, key, workflow, current_node, resumed_by, error, failure, labels, input, output)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
    $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[],
    $14::bigint[], $15::smallint[], $16::boolean[], $17::bytea[], $18::bytea[], $19::bytea[],
    $20::bytea[], $21::bytea[], $22::bytea[], $23::bytea[], $24::bytea[], $25::bytea[], $26::bytea[])
ON CONFLICT (execution) DO NOTHING
RETURNING execution
