-- projector: the same for variables. Those of an execution that has a row again, written by a faster process,
-- stay. Served by the keys of variable_rows and execution_rows.
DELETE FROM variable_rows WHERE execution = ANY(ARRAY(
    SELECT forgotten FROM unnest($1::bigint[]) AS forgotten
    WHERE NOT EXISTS (SELECT FROM execution_rows WHERE execution = forgotten)))
