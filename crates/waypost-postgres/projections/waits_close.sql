-- projector: waits of a node ($2) are over, or all of an execution where it is NULL. Served by
-- wait_rows_open.
UPDATE wait_rows AS w SET status = c.status, closed_at = c.closed_at
FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bigint[])
    AS c (execution, node, status, closed_at)
WHERE w.execution = c.execution AND w.status = 0 AND (c.node IS NULL OR w.node = c.node)
