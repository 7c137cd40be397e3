-- deliver, append, hold: makes unowned executions ready that have mail which may wake them. Locked
-- rows are skipped: their owner parks or claims, and reads the inbox after that. Served by the key
-- of control and inbox_by_execution.
WITH listening AS MATERIALIZED (
    SELECT c.execution FROM control AS c
    WHERE c.execution = ANY ($1::int8[]) AND c.owner IS NULL AND NOT c.ready
      AND (SELECT true FROM inbox AS i
           WHERE i.execution = c.execution AND i.urgency >= c.wakes_from
             AND i.id <> ALL (c.deaf_to)
           LIMIT 1)
    ORDER BY c.execution
    FOR UPDATE OF c SKIP LOCKED
)
UPDATE control AS c SET ready = true FROM listening WHERE c.execution = listening.execution
