-- inspect: rows that miss their other half, at most ?2 of each kind; of items and dead letters, those after ?1; not
-- letters of the reason ?3. Scans trigger_fires, trigger_pending and dead_fires; each row is looked up by a key.
SELECT * FROM (
    SELECT 0, trigger, label FROM trigger_fires AS f
    WHERE (outcome = 0) <> (execution IS NOT NULL)
       OR (outcome = 0 AND NOT EXISTS (SELECT 1 FROM frames AS l WHERE l.execution = f.execution))
    LIMIT ?2
) UNION ALL SELECT * FROM (
    SELECT 1, NULL, label FROM trigger_pending AS p
    WHERE NOT EXISTS (SELECT 1 FROM trigger_groups AS g WHERE g.number = p.in_group)
    LIMIT ?2
) UNION ALL SELECT * FROM (
    SELECT 2, trigger, label FROM trigger_fires
    WHERE outcome = 4 AND at > ?1 AND (trigger, item) NOT IN (SELECT trigger, item FROM dead_fires)
    LIMIT ?2
) UNION ALL SELECT * FROM (
    SELECT 3, trigger, label FROM dead_fires AS d
    WHERE at > ?1 AND reason <> ?3 AND NOT EXISTS
        (SELECT 1 FROM trigger_fires AS f WHERE f.trigger = d.trigger AND f.item = d.item AND f.outcome = 4)
    LIMIT ?2
)
