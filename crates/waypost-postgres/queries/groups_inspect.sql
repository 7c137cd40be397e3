-- inspect: a page of groups, with what they hold and the state of their triggers. Served by the keys of
-- trigger_groups, triggers and trigger_fires, and by trigger_pending_of.
SELECT g.number, g.trigger, g.key, g.seq, g.first_at, g.last_at, g.events, g.bytes, g.due, g.claimable_at, g.closed,
       g.paused, t.state, h.count, h.bytes, h.last, h.unknown, g.role
FROM (SELECT * FROM trigger_groups WHERE number > $1 ORDER BY number LIMIT $2) AS g
LEFT JOIN triggers AS t ON t.number = g.trigger
CROSS JOIN LATERAL (
    SELECT count(*) AS count, coalesce(sum(length(p.payload)), 0)::int8 AS bytes, coalesce(max(p.id), 0) AS last,
           count(*) FILTER (WHERE NOT EXISTS
               (SELECT FROM trigger_fires AS f WHERE f.trigger = g.trigger AND f.item = p.item)) AS unknown
    FROM trigger_pending AS p WHERE p.in_group = g.number
) AS h
ORDER BY g.number
