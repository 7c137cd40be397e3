-- repair: groups follow the state of their trigger, and claims of windows end. Served by trigger_groups_of.
UPDATE trigger_groups
SET paused = ?2, claimable_at = iif(role <> 0, claimable_at, iif(closed, last_at, due))
WHERE trigger = ?1
