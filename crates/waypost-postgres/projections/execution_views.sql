-- projector, inspect: the rows to go on from; the output, which can be large, only where $2 says so. Served by
-- the key of execution_rows.
SELECT execution, projected, seq, status, generation, epoch, started_at, completed_at, updated_at,
       resumed_at, resumed_by, nodes_executed, current_node, waited, error, key, created_at,
       CASE WHEN $2 THEN output END
FROM execution_rows WHERE execution = ANY($1)
