-- repair: windows of a trigger that hold nothing. Served by trigger_groups_of and trigger_pending_of.
DELETE FROM trigger_groups AS g
WHERE g.trigger = $1 AND g.role = 0
  AND NOT EXISTS (SELECT FROM trigger_pending AS p WHERE p.in_group = g.number)
