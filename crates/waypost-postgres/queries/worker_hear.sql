-- tasks: a sign of life, valid for $2 ms (NULL: the last one); returns the worker's cancellations,
-- once. Its tasks in hand are $8, as of $9 ms ago (both NULL: unknown).
-- Served by the keys of workers and task_cancels.
WITH clock AS MATERIALIZED (
    SELECT waypost_now() AS now
), seen AS (
    INSERT INTO workers (id, through, seen_at, alive_until, capacity, running, name, handlers,
                         tasks, said_at)
    SELECT $1, $3, clock.now, clock.now + $2::int8, $4, $5, $6, $7, $8, clock.now - $9::int8 FROM clock
    ON CONFLICT (id) DO UPDATE SET
        through = excluded.through, seen_at = excluded.seen_at, alive_until = excluded.alive_until,
        capacity = excluded.capacity, running = excluded.running, name = excluded.name,
        handlers = excluded.handlers, tasks = excluded.tasks, said_at = excluded.said_at
)
DELETE FROM task_cancels WHERE worker = $1 RETURNING token
