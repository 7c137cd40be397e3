-- projector: executions ($1) end, at a time ($2), and with them their nodes that are PENDING. Served by the
-- key of node_rows.
UPDATE node_rows AS n SET status = 8, updated_at = c.at
FROM unnest($1::bigint[], $2::bigint[]) AS c (execution, at)
WHERE n.execution = c.execution AND n.status = 0
