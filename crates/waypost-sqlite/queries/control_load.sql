-- load, deliver: a control row with its owner's id. Served by the keys of control and instances.
SELECT instances.id, control.epoch, control.next_due, control.ready, control.held
FROM control LEFT JOIN instances ON instances.number = control.owner
WHERE control.execution = ?1
