-- append, settle_trigger, arrive, claim_groups: events of a key that may start. Served by trigger_groups_of.
SELECT count(*) FROM trigger_groups WHERE trigger = ?1 AND key = ?2 AND role = 2
