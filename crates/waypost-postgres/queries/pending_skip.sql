-- arrive: the events of a queue, which are skipped. Served by trigger_pending_of.
DELETE FROM trigger_pending WHERE in_group = $1 RETURNING item
