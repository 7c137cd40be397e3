-- What starts executions: a row for each name in a workflow, over all versions. A retired one keeps its row.
CREATE TABLE triggers (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    workflow TEXT NOT NULL,
    name TEXT NOT NULL,
    kind INTEGER NOT NULL,
    version INTEGER NOT NULL,
    definition BLOB NOT NULL,
    revision INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    state INTEGER NOT NULL,
    reason TEXT,
    -- JSON.
    cursor TEXT NOT NULL,
    -- Not NULL only if it is active.
    next_due INTEGER,
    failures INTEGER NOT NULL,
    failure TEXT,
    -- JSON.
    topics TEXT NOT NULL,
    registered_at INTEGER NOT NULL,
    last_fired_at INTEGER,
    timing BLOB NOT NULL,
    by_definition INTEGER NOT NULL,
    -- When it is due, or when its claim ends.
    claimable_at INTEGER,
    UNIQUE (workflow, name)
) STRICT;
CREATE INDEX triggers_claimable ON triggers (claimable_at) WHERE claimable_at IS NOT NULL;

-- One row: a number that changes with the list of triggers, their states and revisions.
CREATE TABLE trigger_roster (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    revision INTEGER NOT NULL
) STRICT;
INSERT INTO trigger_roster (one, revision) VALUES (1, 0);

-- What became of each item.
CREATE TABLE trigger_fires (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    trigger INTEGER NOT NULL,
    item BLOB NOT NULL,
    label TEXT NOT NULL,
    at INTEGER NOT NULL,
    nominal INTEGER,
    outcome INTEGER NOT NULL,
    reason TEXT,
    execution INTEGER,
    -- May its execution be unfinished?
    open INTEGER NOT NULL,
    UNIQUE (trigger, item)
) STRICT;
CREATE INDEX trigger_fires_listed ON trigger_fires (trigger, place);
CREATE INDEX trigger_fires_open ON trigger_fires (trigger, place) WHERE open;
CREATE INDEX trigger_fires_old ON trigger_fires (at);

-- Groups of windows. Of each key of a trigger, at most one is not closed.
CREATE TABLE trigger_groups (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    trigger INTEGER NOT NULL,
    key TEXT NOT NULL,
    -- The id of its last event.
    seq INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    events INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    due INTEGER NOT NULL,
    -- When it is due, or when its claim ends.
    claimable_at INTEGER NOT NULL,
    closed INTEGER NOT NULL DEFAULT 0,
    -- Is its trigger not active?
    paused INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX trigger_groups_current ON trigger_groups (trigger, key) WHERE NOT closed;
CREATE INDEX trigger_groups_of ON trigger_groups (trigger, key, seq);
CREATE INDEX trigger_groups_claimable ON trigger_groups (claimable_at) WHERE NOT paused;

-- Events in groups.
CREATE TABLE trigger_pending (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    in_group INTEGER NOT NULL,
    item BLOB NOT NULL,
    label TEXT NOT NULL,
    -- JSON.
    payload TEXT NOT NULL
) STRICT;
CREATE INDEX trigger_pending_of ON trigger_pending (in_group, id);

-- Dead letters of triggers.
CREATE TABLE dead_fires (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    trigger INTEGER NOT NULL,
    item BLOB NOT NULL,
    label TEXT NOT NULL,
    at INTEGER NOT NULL,
    reason TEXT NOT NULL,
    -- JSON.
    payload TEXT NOT NULL,
    state INTEGER NOT NULL
) STRICT;
CREATE INDEX dead_fires_of ON dead_fires (trigger, id);
CREATE INDEX dead_fires_old ON dead_fires (at);
CREATE INDEX dead_fires_dead ON dead_fires (id) WHERE state = 0;
