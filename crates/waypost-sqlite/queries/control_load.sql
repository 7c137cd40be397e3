-- load, deliver: a control row with its owner's id and its place in the queue of its concurrency key.
-- Served by the keys of control, instances and permits, and by permits_by_key.
SELECT instances.id, control.epoch, control.next_due, control.ready, control.held,
       permits.key, permits.holding,
       (SELECT count(*) FROM permits AS earlier
        WHERE earlier.key = permits.key AND earlier.ticket < permits.ticket),
       control.crashes, control.doubt
FROM control LEFT JOIN instances ON instances.number = control.owner
             LEFT JOIN permits ON permits.execution = control.execution
WHERE control.execution = ?1
