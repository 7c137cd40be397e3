-- append, settle_trigger: a group as it was read. Served by trigger_groups_of.
SELECT number, role FROM trigger_groups WHERE trigger = ?1 AND key = ?2 AND seq = ?3
