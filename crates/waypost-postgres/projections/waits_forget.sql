-- projector: the same for waits. Those of an execution that has a row again, by somebody who was faster,
-- stay. Served by the keys of wait_rows and execution_rows.
DELETE FROM wait_rows WHERE execution = ANY(ARRAY(
    SELECT forgotten FROM unnest($1::bigint[]) AS forgotten
    WHERE NOT EXISTS (SELECT FROM execution_rows WHERE execution = forgotten)))
