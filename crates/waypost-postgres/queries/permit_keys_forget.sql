-- append: keys that nobody is queued for. One for which somebody takes a place meanwhile has
-- another last ticket by the time that its row can be locked; one that somebody has locked is left to them:
-- they lock several in an order of their own. Served by the key of permit_keys and permits_by_key.
WITH idle AS MATERIALIZED (
    SELECT k.id
    FROM permit_keys AS seen
    JOIN permit_keys AS k ON k.id = seen.id AND k.last_ticket = seen.last_ticket
    WHERE seen.id = ANY ($1::int8[]) AND NOT EXISTS (SELECT 1 FROM permits AS s WHERE s.key = seen.id)
    FOR UPDATE OF k SKIP LOCKED
)
DELETE FROM permit_keys AS k USING idle WHERE k.id = idle.id
