-- arrive: a group that takes no more events; it is due. Served by the key of trigger_groups.
UPDATE trigger_groups SET closed = true, claimable_at = least(claimable_at, $2) WHERE number = $1
