-- append, claim, inspect: waiting rows, by execution ($1) and ticket ($2), get permits, and their executions
-- are ready, unless an instance owns or has quarantined them. A row that another transaction has locked is
-- left to it, or to the next sweep. The owner is read from the locked row: an instance may have given the
-- execution up after the snapshot. Served by the keys of permits and control.
WITH next AS MATERIALIZED (
    SELECT s.execution, c.owner IS NULL AND c.wakes_from < 2 AS is_admitted
    FROM unnest($1::int8[], $2::int8[]) AS p (execution, ticket)
    JOIN permits AS s ON s.execution = p.execution AND s.ticket = p.ticket
    JOIN control AS c ON c.execution = s.execution
    WHERE NOT s.holding
    ORDER BY s.execution
    FOR UPDATE OF s, c SKIP LOCKED
), admitted AS (
    UPDATE control AS c SET ready = true, held = NULL, wakes_from = 0
    FROM next WHERE c.execution = next.execution AND next.is_admitted
)
UPDATE permits AS s SET holding = true FROM next WHERE s.execution = next.execution
