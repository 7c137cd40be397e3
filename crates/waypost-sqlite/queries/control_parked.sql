-- append: the execution is left unowned; mail that may wake it makes it ready. Served by the keys
-- of control and inbox.
INSERT INTO control (execution, owner, epoch, next_due, ready, held, wakes_from, requires)
SELECT ?1, NULL, ?2, ?3,
       EXISTS (SELECT 1 FROM inbox WHERE execution = ?1 AND urgency >= ?5), ?4, ?5, ?6
WHERE true
ON CONFLICT (execution) DO UPDATE SET
    owner = NULL, epoch = max(epoch, excluded.epoch), next_due = excluded.next_due,
    ready = excluded.ready, held = excluded.held, wakes_from = excluded.wakes_from,
    requires = max(requires, excluded.requires), crashes = 0, doubt = 0
