-- repair: groups follow the state of their trigger, and claims of windows end. Served by trigger_groups_of.
UPDATE trigger_groups
SET paused = $2, claimable_at = CASE WHEN role <> 0 THEN claimable_at WHEN closed THEN last_at ELSE due END
WHERE trigger = $1
