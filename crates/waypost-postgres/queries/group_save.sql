-- arrive: a group with its last event. Served by the key of trigger_groups.
UPDATE trigger_groups
SET seq = $2, first_at = $3, last_at = $4, events = $5, bytes = $6, due = $7, claimable_at = $7
WHERE number = $1
