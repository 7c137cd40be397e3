-- claim_triggers, claim_groups: when the next trigger, and the next group, may be claimed, and the time. Served by
-- triggers_claimable and trigger_groups_claimable.
SELECT (SELECT min(claimable_at) FROM triggers WHERE claimable_at IS NOT NULL),
       (SELECT min(claimable_at) FROM trigger_groups WHERE NOT paused), waypost_now()
