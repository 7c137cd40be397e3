-- arrive: a group that takes no more events; it is due. Served by the key of trigger_groups.
UPDATE trigger_groups SET closed = 1, claimable_at = min(claimable_at, ?2) WHERE number = ?1
