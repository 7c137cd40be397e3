-- append, settle_trigger, arrive, claim_groups: what has changed of a queue. Served by the key of trigger_groups.
UPDATE trigger_groups SET starts = ?2, events = ?3, bytes = ?4, due = ?5, claimable_at = ?5 WHERE number = ?1
