-- arrive: a new queue.
INSERT INTO trigger_groups (trigger, key, seq, first_at, last_at, events, bytes, due, claimable_at, closed, role, rate, per)
VALUES (?1, ?2, 0, ?3, ?3, 0, 0, ?3, ?3, 1, 1, ?4, ?5)
