-- inspect: the places of executions, also of those that have no control row. Served by the keys of permits
-- and permit_keys and by permits_by_key.
SELECT s.execution, k.key, s.holding,
       (SELECT count(*) FROM permits AS b WHERE b.key = s.key AND b.ticket < s.ticket)
FROM permits AS s JOIN permit_keys AS k ON k.id = s.key
WHERE s.execution = ANY ($1::int8[])
