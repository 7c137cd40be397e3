-- projector: as executions_forget, for nodes. Those of an execution that another process has written
-- a row for again stay. Served by the keys of node_rows and execution_rows.
DELETE FROM node_rows WHERE execution = ANY(ARRAY(
    SELECT forgotten FROM unnest($1::bigint[]) AS forgotten
    WHERE NOT EXISTS (SELECT FROM execution_rows WHERE execution = forgotten)))
