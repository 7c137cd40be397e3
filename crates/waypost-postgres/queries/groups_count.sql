-- arrive: how many groups of a trigger wait. Served by trigger_groups_of.
SELECT count(*) FROM trigger_groups WHERE trigger = $1
