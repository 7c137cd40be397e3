-- claim_groups, define: the events of a group, oldest first. Served by trigger_pending_of.
SELECT item, label, payload FROM trigger_pending WHERE in_group = ?1 ORDER BY id
