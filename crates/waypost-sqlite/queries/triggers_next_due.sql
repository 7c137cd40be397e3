-- claim_triggers: when the next trigger, and the next group, may be claimed. Served by triggers_claimable and
-- trigger_groups_claimable.
SELECT (SELECT claimable_at FROM triggers
        WHERE claimable_at IS NOT NULL AND (?1 IS NULL OR kind = ?1)
              AND number NOT IN (SELECT value FROM json_each(?2))
        ORDER BY claimable_at LIMIT 1),
       (SELECT min(claimable_at) FROM trigger_groups WHERE NOT paused)
