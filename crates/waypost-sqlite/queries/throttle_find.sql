-- append, settle_trigger, arrive: the queue of a key. Served by trigger_groups_queue.
SELECT number, trigger, key, rate, per, starts, events, bytes FROM trigger_groups WHERE trigger = ?1 AND key = ?2 AND role = 1
