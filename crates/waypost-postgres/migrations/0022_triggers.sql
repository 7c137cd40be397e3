-- What starts executions: a row for each name in a workflow, over all versions. A retired one keeps its row.
-- Fires lock a row FOR KEY SHARE, those that move its cursor FOR NO KEY UPDATE; whatever changes its state or
-- revision locks it FOR UPDATE, and so waits for fires under way.
CREATE TABLE triggers (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workflow bytea NOT NULL,
    name bytea NOT NULL,
    kind smallint NOT NULL,
    version bigint NOT NULL,
    definition bytea NOT NULL,
    revision bigint NOT NULL,
    seq bigint NOT NULL,
    incarnation bigint NOT NULL,
    -- Active, paused, broken, retired.
    state smallint NOT NULL CHECK (state IN (0, 1, 2, 3)),
    reason bytea,
    -- JSON.
    cursor bytea NOT NULL,
    -- Not NULL only if it is active.
    next_due bigint,
    failures bigint NOT NULL,
    failure bytea,
    -- JSON.
    topics bytea NOT NULL,
    registered_at bigint NOT NULL,
    last_fired_at bigint,
    timing bytea NOT NULL,
    by_definition boolean NOT NULL,
    -- When it is due, or when its claim ends.
    claimable_at bigint,
    UNIQUE (workflow, name)
) WITH (fillfactor = 50);
CREATE INDEX triggers_claimable ON triggers (claimable_at, number) WHERE claimable_at IS NOT NULL;

-- One row: a number that changes with the list of triggers, their states and revisions.
CREATE TABLE trigger_roster (
    one boolean PRIMARY KEY CHECK (one),
    revision bigint NOT NULL
);
INSERT INTO trigger_roster (one, revision) VALUES (true, 0);

-- What became of each item.
CREATE TABLE trigger_fires (
    trigger bigint NOT NULL,
    item bytea NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY,
    label bytea NOT NULL,
    at bigint NOT NULL,
    nominal bigint,
    outcome smallint NOT NULL,
    reason bytea,
    execution bigint,
    -- May its execution be unfinished?
    open boolean NOT NULL,
    PRIMARY KEY (trigger, item)
);
CREATE INDEX trigger_fires_listed ON trigger_fires (trigger, place);
CREATE INDEX trigger_fires_open ON trigger_fires (trigger, place) WHERE open;
-- Rows are written in the order of their times, so that ranges of pages are enough to find old ones.
CREATE INDEX trigger_fires_old ON trigger_fires USING brin (at);

-- Groups of windows. Of each key of a trigger, at most one is not closed.
CREATE TABLE trigger_groups (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    trigger bigint NOT NULL,
    key bytea NOT NULL,
    -- The id of its last event.
    seq bigint NOT NULL,
    first_at bigint NOT NULL,
    last_at bigint NOT NULL,
    events bigint NOT NULL,
    bytes bigint NOT NULL,
    due bigint NOT NULL,
    -- When it is due, or when its claim ends.
    claimable_at bigint NOT NULL,
    closed boolean NOT NULL DEFAULT false,
    -- Is its trigger not active?
    paused boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX trigger_groups_current ON trigger_groups (trigger, sha256(key)) WHERE NOT closed;
CREATE INDEX trigger_groups_of ON trigger_groups (trigger, seq);
CREATE INDEX trigger_groups_claimable ON trigger_groups (claimable_at, seq) WHERE NOT paused;

-- Events in groups.
CREATE TABLE trigger_pending (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    in_group bigint NOT NULL,
    item bytea NOT NULL,
    label bytea NOT NULL,
    -- JSON.
    payload bytea NOT NULL
);
CREATE INDEX trigger_pending_of ON trigger_pending (in_group, id);

-- Dead letters of triggers.
CREATE TABLE dead_fires (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    trigger bigint NOT NULL,
    item bytea NOT NULL,
    label bytea NOT NULL,
    at bigint NOT NULL,
    reason bytea NOT NULL,
    -- JSON.
    payload bytea NOT NULL,
    -- Dead, retried, discarded.
    state smallint NOT NULL DEFAULT 0
);
CREATE INDEX dead_fires_of ON dead_fires (trigger, id);
CREATE INDEX dead_fires_old ON dead_fires (at);
CREATE INDEX dead_fires_dead ON dead_fires (id) WHERE state = 0;
