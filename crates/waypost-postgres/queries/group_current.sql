-- arrive: the group of a key that takes events. Served by trigger_groups_current.
SELECT number, first_at, last_at, events, bytes, due FROM trigger_groups
WHERE trigger = $1 AND sha256(key) = sha256($2) AND NOT closed FOR UPDATE
