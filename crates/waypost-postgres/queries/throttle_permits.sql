-- append, settle_trigger, arrive, claim_groups: how many events of a key may start, and the time, once its queue is
-- locked. Served by trigger_groups_permits.
SELECT count(*), waypost_now() FROM trigger_groups WHERE trigger = $1 AND sha256(key) = sha256($2) AND role = 2
