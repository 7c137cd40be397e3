-- Throttles: queues of events that wait for their turn, and events that may start.
-- 0: a window. 1: the queue of a key; its events wait. 2: an event of a throttle that may start.
ALTER TABLE trigger_groups ADD COLUMN role INTEGER NOT NULL DEFAULT 0;
-- Of a queue: so many starts in so many milliseconds.
ALTER TABLE trigger_groups ADD COLUMN rate INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trigger_groups ADD COLUMN per INTEGER NOT NULL DEFAULT 0;
-- Of a queue: the times of its starts that count, as JSON.
ALTER TABLE trigger_groups ADD COLUMN starts TEXT NOT NULL DEFAULT '[]';
CREATE UNIQUE INDEX trigger_groups_queue ON trigger_groups (trigger, key) WHERE role = 1;
