-- define: the groups of a trigger, with their events, which it returns. Served by trigger_groups_of and
-- trigger_pending_of.
WITH gone AS (
    DELETE FROM trigger_groups WHERE trigger = $1 RETURNING number
)
DELETE FROM trigger_pending AS p USING gone WHERE p.in_group = gone.number
RETURNING p.item, p.label, p.payload, p.id
