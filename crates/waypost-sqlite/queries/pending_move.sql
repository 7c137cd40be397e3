-- arrive, claim_groups: an event is in another group. Served by the key of trigger_pending.
UPDATE trigger_pending SET in_group = ?2 WHERE id = ?1
