-- arrive: a new queue, unless another one was made meanwhile. Served by trigger_groups_queue.
INSERT INTO trigger_groups (trigger, key, seq, first_at, last_at, events, bytes, due, claimable_at, closed, role,
                            rate, per)
VALUES ($1, $2, 0, $3, $3, 0, 0, $3, $3, true, 1, $4, $5)
ON CONFLICT DO NOTHING
