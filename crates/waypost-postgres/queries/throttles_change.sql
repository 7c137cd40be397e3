-- define: the trigger has another throttle, or none. Served by trigger_groups_queue.
UPDATE trigger_groups SET rate = $2, per = $3, due = waypost_now(), claimable_at = waypost_now()
WHERE trigger = $1 AND role = 1 AND (rate <> $2 OR per <> $3)
