-- append: the frame's instance owns the execution. An instance whose lease was ended cannot own:
-- the execution becomes ready for another instance. Served by the keys of control and instances.
INSERT INTO control (execution, owner, epoch, next_due, ready, held, wakes_from, requires)
SELECT ?1, alive.number, ?3, NULL, alive.number IS NULL, NULL, 0, ?4
FROM (SELECT (SELECT number FROM instances WHERE number = ?2 AND alive_until IS NOT NULL)
      AS number) AS alive
WHERE true
ON CONFLICT (execution) DO UPDATE SET
    owner = excluded.owner, epoch = max(epoch, excluded.epoch), next_due = NULL,
    ready = excluded.ready, held = NULL, wakes_from = 0,
    requires = max(requires, excluded.requires)
