-- inspect: the items that name an execution. Served by trigger_fires_started and the key of triggers.
SELECT f.place, f.item, f.label, f.at, f.nominal, f.outcome, f.reason, f.execution, f.trigger, t.workflow, t.name
FROM trigger_fires AS f LEFT JOIN triggers AS t ON t.number = f.trigger
WHERE f.execution = ?1 ORDER BY f.place
