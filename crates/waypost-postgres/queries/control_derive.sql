-- repair: the control row that a log gives ($1): unowned; ready ($2), or not until it is due ($4)
-- or has mail of urgency $6 or more. An epoch ($3) and a log format ($7) that are ahead stay so.
-- Served by the key of control and inbox_by_execution.
INSERT INTO control AS c (execution, owner, epoch, next_due, ready, held, wakes_from, requires)
VALUES ($1, NULL, $3, $4,
        $2 OR EXISTS (SELECT FROM inbox AS i WHERE i.execution = $1 AND i.urgency >= $6),
        $5, $6, $7)
ON CONFLICT (execution) DO UPDATE SET
    owner = NULL, epoch = greatest(c.epoch, excluded.epoch), next_due = excluded.next_due,
    ready = excluded.ready, held = excluded.held, wakes_from = excluded.wakes_from,
    requires = greatest(c.requires, excluded.requires), state_seq = NULL, state_digest = NULL,
    deaf_to = '{}'
