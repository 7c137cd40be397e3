-- Where messages about executions are sent. The secrets sign them, so they are kept as they are.
CREATE TABLE webhook_endpoints (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id bytea NOT NULL UNIQUE,
    url bytea NOT NULL,
    description bytea NOT NULL,
    -- NULL: messages about every workflow.
    workflow bytea,
    -- One bit for each kind of message.
    kinds bigint NOT NULL,
    with_output boolean NOT NULL,
    secret bytea NOT NULL,
    former_secret bytea,
    former_until bigint,
    -- Active, paused, disabled.
    state smallint NOT NULL DEFAULT 0 CHECK (state IN (0, 1, 2)),
    failures bigint NOT NULL DEFAULT 0,
    probe_at bigint,
    probing boolean NOT NULL DEFAULT false,
    created_at bigint NOT NULL
) WITH (fillfactor = 50);

-- Messages, written with the frames that cause them. No foreign key: an append never waits for a claim.
CREATE TABLE outbox (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint bigint NOT NULL,
    execution bigint NOT NULL,
    seq bigint NOT NULL,
    mark bigint NOT NULL,
    kind smallint NOT NULL,
    at bigint NOT NULL,
    frame_seq bigint NOT NULL,
    data bytea NOT NULL,
    -- Pending, delivered, dead.
    state smallint NOT NULL DEFAULT 0 CHECK (state IN (0, 1, 2)),
    attempts bigint NOT NULL DEFAULT 0,
    -- Since when it is pending.
    since bigint NOT NULL,
    -- When it may be sent; while it is claimed, when the claim ends.
    due bigint NOT NULL,
    claim uuid,
    status integer,
    took bigint,
    reason bytea,
    settled_at bigint
);
CREATE UNIQUE INDEX outbox_by_execution ON outbox (endpoint, execution, seq);
CREATE INDEX outbox_due ON outbox (endpoint, due) WHERE state = 0;
CREATE INDEX outbox_claimed ON outbox (endpoint) WHERE claim IS NOT NULL;
CREATE INDEX outbox_since ON outbox (since) WHERE state = 0;
CREATE INDEX outbox_settled ON outbox (state, settled_at) WHERE state > 0;
