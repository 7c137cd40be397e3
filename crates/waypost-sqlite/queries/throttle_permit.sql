-- arrive, claim_groups: an event that may start. Its seq is the event's id.
INSERT INTO trigger_groups (trigger, key, seq, first_at, last_at, events, bytes, due, claimable_at, closed, role)
VALUES (?1, ?2, ?3, ?4, ?4, 1, ?5, ?4, ?6, 1, 2)
