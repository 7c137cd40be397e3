-- append: keys that nobody stands in line for. One for which somebody takes a place meanwhile has
-- another last ticket by the time that its row can be deleted. Served by the key of slot_keys and
-- slots_by_key.
DELETE FROM slot_keys AS k
USING slot_keys AS seen
WHERE k.id = seen.id AND k.last_ticket = seen.last_ticket AND seen.id = ANY ($1::int8[])
  AND NOT EXISTS (SELECT 1 FROM slots AS s WHERE s.key = seen.id)
