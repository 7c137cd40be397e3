-- change_trigger, settle_trigger, define: groups of a trigger that is not active wait. Served by
-- trigger_groups_of.
UPDATE trigger_groups SET paused = $2 WHERE trigger = $1 AND paused <> $2
