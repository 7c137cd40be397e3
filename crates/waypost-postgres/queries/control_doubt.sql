-- doubt: executions ($2) of this owner ($1) are about to be decided. Rows are locked in one order: another
-- statement may lock some of them at the same time. Served by the key of control.
WITH mine AS MATERIALIZED (
    SELECT c.execution FROM control AS c
    WHERE c.execution = ANY ($2::int8[]) AND c.owner = $1
    ORDER BY c.execution FOR UPDATE
)
UPDATE control AS c SET doubt = c.crashes > 0 FROM mine WHERE c.execution = mine.execution
RETURNING c.execution
