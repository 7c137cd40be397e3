-- append, inspect, under the lock of their keys: executions of different keys go to the ends of their
-- queues, or stay where they are. Served by the keys of permit_keys and permits.
WITH tickets AS (
    UPDATE permit_keys AS k SET last_ticket = k.last_ticket + 1
    FROM unnest($1::int8[], $2::int8[], $3::int8[]) AS r (execution, key, most)
    WHERE k.id = r.key
    RETURNING r.execution, k.id, k.last_ticket, r.most
)
INSERT INTO permits (execution, key, ticket, most, holding, superseded)
SELECT execution, id, last_ticket, most, $4, false FROM tickets
ON CONFLICT (execution) DO NOTHING
