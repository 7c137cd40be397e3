-- inspect: rows that miss their other half, at most $2 of each kind; of items and dead letters, those of the last
-- $1 ms; not letters of the reason $3. Scans trigger_fires, trigger_pending and dead_fires.
WITH clock AS MATERIALIZED (
    SELECT waypost_now() - $1::int8 AS since
)
(SELECT 0::int2, f.trigger, f.label FROM trigger_fires AS f
 WHERE (f.outcome = 0) <> (f.execution IS NOT NULL)
    OR (f.outcome = 0 AND NOT EXISTS (SELECT FROM frames AS l WHERE l.execution = f.execution))
 LIMIT $2)
UNION ALL
(SELECT 1::int2, NULL, p.label FROM trigger_pending AS p
 WHERE NOT EXISTS (SELECT FROM trigger_groups AS g WHERE g.number = p.in_group)
 LIMIT $2)
UNION ALL
(SELECT 2::int2, f.trigger, f.label FROM trigger_fires AS f
 WHERE f.outcome = 4 AND f.at > (SELECT since FROM clock)
   AND NOT EXISTS (SELECT FROM dead_fires AS d WHERE d.trigger = f.trigger AND d.item = f.item)
 LIMIT $2)
UNION ALL
(SELECT 3::int2, d.trigger, d.label FROM dead_fires AS d
 WHERE d.at > (SELECT since FROM clock) AND d.reason <> $3 AND NOT EXISTS
    (SELECT FROM trigger_fires AS f WHERE f.trigger = d.trigger AND f.item = d.item AND f.outcome = 4)
 LIMIT $2)
