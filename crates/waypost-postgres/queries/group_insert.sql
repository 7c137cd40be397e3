-- arrive: a new group, unless another one was made meanwhile. Served by trigger_groups_current.
INSERT INTO trigger_groups (trigger, key, seq, first_at, last_at, events, bytes, due, claimable_at)
VALUES ($1, $2, 0, $3, $3, 0, 0, $3, $3)
ON CONFLICT DO NOTHING
RETURNING number
