-- claim_groups: the events of groups, oldest first. Served by trigger_pending_of.
SELECT in_group, label, payload FROM trigger_pending WHERE in_group = ANY ($1::int8[]) ORDER BY in_group, id
