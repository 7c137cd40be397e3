-- append, inspect, under the locks of their keys: executions of different keys join the ends of their
-- queues. Served by the key of permit_keys.
WITH tickets AS (
    UPDATE permit_keys AS k SET last_ticket = k.last_ticket + 1
    FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::bool[]) AS r (execution, key, most, holding)
    WHERE k.id = r.key
    RETURNING r.execution, k.id, k.last_ticket, r.most, r.holding
)
INSERT INTO permits (execution, key, ticket, most, holding, superseded)
SELECT execution, id, last_ticket, most, holding, false FROM tickets
