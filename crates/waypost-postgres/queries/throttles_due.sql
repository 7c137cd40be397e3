-- claim_groups: the triggers of queues to look at, at most $1. Served by trigger_groups_claimable.
SELECT DISTINCT trigger FROM (
    SELECT trigger FROM trigger_groups
    WHERE NOT paused AND claimable_at <= (SELECT waypost_now()) AND role = 1 ORDER BY claimable_at, seq LIMIT $1
) AS due
