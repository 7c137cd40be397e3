-- define: the trigger has another throttle, or none. Served by trigger_groups_queue.
UPDATE trigger_groups SET rate = ?2, per = ?3, due = ?4, claimable_at = ?4
WHERE trigger = ?1 AND role = 1 AND (rate <> ?2 OR per <> ?3)
