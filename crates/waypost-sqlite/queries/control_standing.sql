-- inspect: the columns that a claim uses. Served by the keys of control and instances.
SELECT control.owner, instances.alive_until, control.wakes_from, control.requires
FROM control LEFT JOIN instances ON instances.number = control.owner
WHERE control.execution = ?1
