-- repair: groups follow the state of their trigger, and their claims end. Served by trigger_groups_of.
UPDATE trigger_groups SET paused = ?2, claimable_at = iif(closed, last_at, due) WHERE trigger = ?1
