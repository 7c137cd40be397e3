-- claim_groups: at most $2 queues to look at, of these triggers, which are locked. Served by
-- trigger_groups_claimable.
SELECT number, trigger, key, rate, per, starts, events, bytes FROM trigger_groups
WHERE NOT paused AND claimable_at <= (SELECT waypost_now()) AND role = 1 AND trigger = ANY ($1::int8[])
ORDER BY claimable_at, seq LIMIT $2
FOR UPDATE SKIP LOCKED
