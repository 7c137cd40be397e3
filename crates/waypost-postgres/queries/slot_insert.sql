-- append, audit, under the lock of their keys: executions of different keys go to the ends of their
-- lines, or stay where they are. Served by the keys of slot_keys and slots.
WITH tickets AS (
    UPDATE slot_keys AS k SET last_ticket = k.last_ticket + 1
    FROM unnest($1::int8[], $2::int8[], $3::int8[]) AS r (execution, key, most)
    WHERE k.id = r.key
    RETURNING r.execution, k.id, k.last_ticket, r.most
)
INSERT INTO slots (execution, key, ticket, most, holding, superseded)
SELECT execution, id, last_ticket, most, $4, false FROM tickets
ON CONFLICT (execution) DO NOTHING
