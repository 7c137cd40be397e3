-- projector: rows of executions that have one and are locked. $16 says where the end is told anew. Served
-- by the key of execution_rows.
UPDATE execution_rows AS e SET projected = c.projected, seq = c.seq, nodes_executed = c.nodes_executed,
    updated_at = c.updated_at, started_at = c.started_at, completed_at = c.completed_at,
    resumed_at = c.resumed_at, generation = c.generation, epoch = c.epoch, status = c.status,
    waited = c.waited, current_node = c.current_node, resumed_by = c.resumed_by, error = c.error,
    failure = CASE WHEN c.ends THEN c.failure ELSE e.failure END,
    output = CASE WHEN c.ends THEN c.output ELSE e.output END
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
    $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::smallint[], $12::boolean[],
    $13::bytea[], $14::bytea[], $15::bytea[], $16::boolean[], $17::bytea[], $18::bytea[])
    AS c (execution, projected, seq, nodes_executed, updated_at, started_at, completed_at, resumed_at,
          generation, epoch, status, waited, current_node, resumed_by, error, ends, failure, output)
WHERE e.execution = c.execution
