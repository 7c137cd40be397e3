-- define: the groups of a trigger. Served by trigger_groups_of.
SELECT number FROM trigger_groups WHERE trigger = ?1 ORDER BY number
