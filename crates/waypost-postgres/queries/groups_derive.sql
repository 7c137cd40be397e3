-- repair: groups follow the state of their trigger, and their claims end. Served by trigger_groups_of.
UPDATE trigger_groups SET paused = $2, claimable_at = CASE WHEN closed THEN last_at ELSE due END WHERE trigger = $1
