-- load, deliver: a control row with its owner's id and its place in the line of its concurrency key.
-- Served by the keys of control, instances and slots, and by slots_by_key.
SELECT instances.id, control.epoch, control.next_due, control.ready, control.held,
       slots.key, slots.holding,
       (SELECT count(*) FROM slots AS earlier
        WHERE earlier.key = slots.key AND earlier.ticket < slots.ticket),
       control.crashes, control.doubt
FROM control LEFT JOIN instances ON instances.number = control.owner
             LEFT JOIN slots ON slots.execution = control.execution
WHERE control.execution = ?1
