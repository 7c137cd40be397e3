-- append: the cursors that fires have moved. Their claims end. Served by the key of triggers.
UPDATE triggers AS t
SET seq = t.seq + 1, cursor = a.cursor, next_due = a.next_due, claimable_at = a.next_due, failures = 0,
    failure = NULL, last_fired_at = waypost_now()
FROM unnest($1::int8[], $2::bytea[], $3::int8[]) AS a (number, cursor, next_due)
WHERE t.number = a.number
