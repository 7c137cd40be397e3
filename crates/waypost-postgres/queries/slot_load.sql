-- audit: the places of executions, also of those that have no control row. Served by the keys of slots
-- and slot_keys and by slots_by_key.
SELECT s.execution, k.key, s.holding,
       (SELECT count(*) FROM slots AS b WHERE b.key = s.key AND b.ticket < s.ticket)
FROM slots AS s JOIN slot_keys AS k ON k.id = s.key
WHERE s.execution = ANY ($1::int8[])
