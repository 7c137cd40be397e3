-- append: deletes keys without rows. A key that gets a row meanwhile has another last ticket by the time
-- that it can be locked. A key that another transaction has locked is left to it: it locks several in an
-- order of its own. Served by the key of permit_keys and permits_by_key.
WITH idle AS MATERIALIZED (
    SELECT k.id
    FROM permit_keys AS seen
    JOIN permit_keys AS k ON k.id = seen.id AND k.last_ticket = seen.last_ticket
    WHERE seen.id = ANY ($1::int8[]) AND NOT EXISTS (SELECT 1 FROM permits AS s WHERE s.key = seen.id)
    FOR UPDATE OF k SKIP LOCKED
)
DELETE FROM permit_keys AS k USING idle WHERE k.id = idle.id
