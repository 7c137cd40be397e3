-- repair: windows of a trigger that hold nothing. Served by trigger_groups_of and trigger_pending_of.
DELETE FROM trigger_groups
WHERE trigger = ?1 AND role = 0
  AND NOT EXISTS (SELECT 1 FROM trigger_pending AS p WHERE p.in_group = trigger_groups.number)
