-- settle_trigger: a group as it was read. Served by trigger_groups_of.
SELECT number FROM trigger_groups WHERE trigger = $1 AND seq = $2 AND key = $3 FOR UPDATE
