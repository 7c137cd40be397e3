-- claim_groups: those that may be claimed, but the queues of throttles. Served by trigger_groups_claimable.
SELECT number, trigger, key, seq, first_at, last_at FROM trigger_groups
WHERE NOT paused AND claimable_at <= ?1 AND role <> 1 ORDER BY claimable_at, seq LIMIT ?2
