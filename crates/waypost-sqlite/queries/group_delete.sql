-- append, settle_trigger, define: a group that has fired, or cannot. Served by the key of trigger_groups.
DELETE FROM trigger_groups WHERE number = ?1
