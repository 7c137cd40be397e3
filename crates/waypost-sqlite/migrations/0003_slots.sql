-- The lines of concurrency keys, and what instances tell of themselves.

-- A place in the line of a key: one for each unfinished execution that has a key. Tickets are given
-- in the order of commits, since one writer gives them. most: how many may hold a slot at once, as
-- the execution's definition says. superseded: was it sent a cancellation for the sake of a newcomer?
CREATE TABLE slots (
    ticket INTEGER PRIMARY KEY,
    execution INTEGER NOT NULL UNIQUE,
    key TEXT NOT NULL,
    most INTEGER NOT NULL CHECK (most >= 1),
    policy TEXT NOT NULL CHECK (policy IN ('queue', 'reject', 'cancel-oldest')),
    holding INTEGER NOT NULL CHECK (holding IN (0, 1)),
    superseded INTEGER NOT NULL CHECK (superseded IN (0, 1))
) STRICT;
CREATE INDEX slots_by_key ON slots (key);
CREATE INDEX slots_holding ON slots (key) WHERE holding = 1;
CREATE INDEX slots_waiting ON slots (key) WHERE holding = 0;

-- about: JSON of what the instance said with its last heartbeat. renewed_at: when that was. NULL for
-- those that were here before this layout, until they renew.
ALTER TABLE instances ADD COLUMN about TEXT;
ALTER TABLE instances ADD COLUMN renewed_at INTEGER;
