-- projector: the same for nodes. Those of an execution that has a row again, by somebody who was faster,
-- stay. Served by the keys of node_rows and execution_rows.
DELETE FROM node_rows WHERE execution = ANY(ARRAY(
    SELECT forgotten FROM unnest($1::bigint[]) AS forgotten
    WHERE NOT EXISTS (SELECT FROM execution_rows WHERE execution = forgotten)))
