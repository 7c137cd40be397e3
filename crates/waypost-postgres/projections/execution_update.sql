-- projector: rows of executions that have one and are locked. $3: is the end written again? Served
-- by the key of execution_rows.
UPDATE execution_rows AS e SET projected = c.projected, {values}
FROM unnest($1::bigint[], $2::bigint[], $3::boolean[], {arrays})
    AS c (execution, projected, ends, {columns})
WHERE e.execution = c.execution
