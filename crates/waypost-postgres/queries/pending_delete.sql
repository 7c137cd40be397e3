-- arrive: the events of a group. Served by trigger_pending_of.
DELETE FROM trigger_pending WHERE in_group = $1
