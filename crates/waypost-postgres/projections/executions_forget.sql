-- projector: the rows of executions are derived again; nothing but the log counts. Locks them in the
-- order of their keys. Served by the key of execution_rows.
WITH locked AS MATERIALIZED (
    SELECT execution FROM execution_rows WHERE execution = ANY($1) ORDER BY execution FOR UPDATE
)
DELETE FROM execution_rows WHERE execution IN (SELECT execution FROM locked)
