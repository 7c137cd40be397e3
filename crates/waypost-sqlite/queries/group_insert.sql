-- arrive: a new group.
INSERT INTO trigger_groups (trigger, key, seq, first_at, last_at, events, bytes, due, claimable_at)
VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, ?7)
