-- arrive: the group of a key that takes events. Served by trigger_groups_current.
SELECT number, seq, first_at, last_at, events, bytes, due FROM trigger_groups WHERE trigger = ?1 AND key = ?2 AND NOT closed
