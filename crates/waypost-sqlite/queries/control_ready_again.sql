-- inspect: an instance has to take the execution over. Served by the key of control.
INSERT INTO control (execution, owner, epoch, next_due, ready, held, wakes_from, requires)
VALUES (?1, NULL, ?2, NULL, 1, NULL, 0, ?3)
ON CONFLICT (execution) DO UPDATE SET
    owner = NULL, epoch = max(epoch, excluded.epoch), next_due = NULL, ready = 1, held = NULL,
    wakes_from = 0, requires = max(requires, excluded.requires)
