-- inspect: a page of groups, with what they hold and the state of their triggers. Served by the keys of
-- trigger_groups and triggers, trigger_pending_of and the unique index of trigger_fires.
SELECT g.number, g.trigger, g.key, g.seq, g.first_at, g.last_at, g.events, g.bytes, g.due, g.claimable_at, g.closed,
       g.paused, t.state,
       (SELECT count(*) FROM trigger_pending AS p WHERE p.in_group = g.number),
       (SELECT coalesce(sum(octet_length(p.payload)), 0) FROM trigger_pending AS p WHERE p.in_group = g.number),
       (SELECT coalesce(max(p.id), 0) FROM trigger_pending AS p WHERE p.in_group = g.number),
       (SELECT count(*) FROM trigger_pending AS p WHERE p.in_group = g.number AND NOT EXISTS
            (SELECT 1 FROM trigger_fires AS f WHERE f.trigger = g.trigger AND f.item = p.item)),
       g.role
FROM trigger_groups AS g LEFT JOIN triggers AS t ON t.number = g.trigger
WHERE g.number > ?1 ORDER BY g.number LIMIT ?2
