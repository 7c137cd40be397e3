-- Throttles: queues of events that wait for their turn, and events that may start.
ALTER TABLE trigger_groups
    -- 0: a window. 1: the queue of a key; its events wait. 2: an event of a throttle that may start.
    ADD COLUMN role smallint NOT NULL DEFAULT 0,
    -- Of a queue: so many starts in so many milliseconds.
    ADD COLUMN rate bigint NOT NULL DEFAULT 0,
    ADD COLUMN per bigint NOT NULL DEFAULT 0,
    -- Of a queue: the times of its starts that count, the oldest first.
    ADD COLUMN starts bigint[] NOT NULL DEFAULT '{}';
CREATE UNIQUE INDEX trigger_groups_queue ON trigger_groups (trigger, sha256(key)) WHERE role = 1;
CREATE INDEX trigger_groups_permits ON trigger_groups (trigger, sha256(key)) WHERE role = 2;
