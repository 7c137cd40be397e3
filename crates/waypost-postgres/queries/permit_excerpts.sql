-- append, claim, inspect: what the rule of the queue needs, for keys ($1) in their order: whether the row of
-- an execution ($2) holds a permit; how many rows do; the first $4 rows that wait; the oldest row that no
-- newcomer has superseded, and how many of those there are, as far as they count ($3). Served by the key of
-- permits, permits_holding, permits_waiting and permits_by_key.
SELECT (SELECT s.holding FROM permits AS s WHERE s.execution = r.execution),
       (SELECT count(*) FROM permits AS s WHERE s.key = r.key AND s.holding),
       w.tickets, w.executions, w.limits,
       (SELECT s.execution FROM permits AS s
        WHERE r.most > 0 AND s.key = r.key AND NOT s.superseded ORDER BY s.ticket LIMIT 1),
       -- In the order of the index: otherwise a plan may collect the whole queue before it counts.
       (SELECT count(*) FROM (SELECT 1 FROM permits AS s WHERE s.key = r.key AND NOT s.superseded
                              ORDER BY s.ticket LIMIT r.most) AS o)
FROM unnest($1::int8[], $2::int8[], $3::int8[]) WITH ORDINALITY AS r (key, execution, most, n)
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(f.ticket ORDER BY f.ticket), '{}') AS tickets,
           coalesce(array_agg(f.execution ORDER BY f.ticket), '{}') AS executions,
           coalesce(array_agg(f.most ORDER BY f.ticket), '{}') AS limits
    FROM (SELECT s.ticket, s.execution, s.most FROM permits AS s
          WHERE s.key = r.key AND NOT s.holding ORDER BY s.ticket LIMIT $4) AS f
) AS w
ORDER BY r.n
