-- append, settle_trigger: groups that have fired, with their events. Returns those that were events of throttles.
-- Served by trigger_groups_of and trigger_pending_of.
WITH gone AS (
    DELETE FROM trigger_groups AS g USING unnest($1::int8[], $2::int8[]) AS a (trigger, seq)
    WHERE g.trigger = a.trigger AND g.seq = a.seq
    RETURNING g.number, g.trigger, g.key, g.role
), events AS (
    DELETE FROM trigger_pending AS p USING gone WHERE p.in_group = gone.number
)
SELECT trigger, key FROM gone WHERE role = 2
