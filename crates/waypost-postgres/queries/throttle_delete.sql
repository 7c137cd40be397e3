-- append, settle_trigger, arrive, claim_groups: a queue that holds nothing back. Served by the key of trigger_groups.
DELETE FROM trigger_groups WHERE number = $1
