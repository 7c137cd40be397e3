-- claim_groups: the oldest events of a queue. Served by trigger_pending_of.
SELECT id, label, payload FROM trigger_pending WHERE in_group = ?1 ORDER BY id LIMIT ?2
