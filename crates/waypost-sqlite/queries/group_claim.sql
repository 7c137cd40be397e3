-- claim_groups: others leave it alone until then, and it takes no more events. Served by the key of
-- trigger_groups.
UPDATE trigger_groups SET closed = 1, claimable_at = ?2 WHERE number = ?1
