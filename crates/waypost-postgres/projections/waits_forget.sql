-- projector: as executions_forget, for waits. Those of an execution that another process has written
-- a row for again stay. Served by the keys of wait_rows and execution_rows.
DELETE FROM wait_rows WHERE execution = ANY(ARRAY(
    SELECT forgotten FROM unnest($1::bigint[]) AS forgotten
    WHERE NOT EXISTS (SELECT FROM execution_rows WHERE execution = forgotten)))
