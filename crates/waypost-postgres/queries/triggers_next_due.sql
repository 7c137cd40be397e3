-- claim_triggers, claim_groups: when the next trigger, of a kind or of any, without some, and the next group, may be
-- claimed, and the time. Served by triggers_claimable and trigger_groups_claimable.
SELECT (SELECT claimable_at FROM triggers
        WHERE claimable_at IS NOT NULL AND ($1::int2 IS NULL OR kind = $1) AND number <> ALL ($2::int8[])
        ORDER BY claimable_at LIMIT 1),
       (SELECT min(claimable_at) FROM trigger_groups WHERE NOT paused), waypost_now()
