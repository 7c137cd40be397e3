-- waiting_events: how many events of a trigger wait, and when the next ones are due. Served by trigger_groups_of and
-- trigger_pending_of.
SELECT count(*), min(g.due) FILTER (WHERE NOT g.paused)
FROM trigger_groups AS g JOIN trigger_pending AS p ON p.in_group = g.number WHERE g.trigger = $1
