-- claim_groups: queues to look at. Served by trigger_groups_claimable.
SELECT number, trigger, key, rate, per, starts, events, bytes FROM trigger_groups
WHERE NOT paused AND claimable_at <= ?1 AND role = 1 ORDER BY claimable_at, number LIMIT ?2
