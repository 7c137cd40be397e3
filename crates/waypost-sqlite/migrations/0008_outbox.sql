-- Where messages about executions are sent. The secrets sign them, so they are kept as they are.
CREATE TABLE webhook_endpoints (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    -- NULL: messages about every workflow.
    workflow TEXT,
    -- One bit for each kind of message.
    kinds INTEGER NOT NULL,
    with_output INTEGER NOT NULL,
    secret BLOB NOT NULL,
    former_secret BLOB,
    former_until INTEGER,
    -- Active, paused, disabled.
    state INTEGER NOT NULL DEFAULT 0 CHECK (state IN (0, 1, 2)),
    failures INTEGER NOT NULL DEFAULT 0,
    probe_at INTEGER,
    probing INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) STRICT;

-- Messages, written with the frames that cause them.
CREATE TABLE outbox (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    endpoint INTEGER NOT NULL,
    execution INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    mark INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    at INTEGER NOT NULL,
    frame_seq INTEGER NOT NULL,
    data BLOB NOT NULL,
    -- Pending, delivered, dead.
    state INTEGER NOT NULL DEFAULT 0 CHECK (state IN (0, 1, 2)),
    attempts INTEGER NOT NULL DEFAULT 0,
    -- Since when it is pending.
    since INTEGER NOT NULL,
    -- When it may be sent; while it is claimed, when the claim ends.
    due INTEGER NOT NULL,
    claim BLOB,
    status INTEGER,
    took INTEGER,
    reason TEXT,
    settled_at INTEGER
) STRICT;
CREATE UNIQUE INDEX outbox_by_execution ON outbox (endpoint, execution, seq);
CREATE INDEX outbox_due ON outbox (endpoint, due) WHERE state = 0;
CREATE INDEX outbox_claimed ON outbox (endpoint) WHERE claim IS NOT NULL;
CREATE INDEX outbox_since ON outbox (since) WHERE state = 0;
CREATE INDEX outbox_settled ON outbox (state, settled_at) WHERE state > 0;
