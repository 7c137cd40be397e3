-- owners: the instance that owns an execution. Served by the key of control.
SELECT instances.id FROM control JOIN instances ON instances.number = control.owner
WHERE control.execution = ?1
