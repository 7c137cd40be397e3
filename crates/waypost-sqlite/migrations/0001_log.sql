-- The log and the rows beside it.

-- One row: what this store is, and the last number set aside for an execution.
CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id BLOB NOT NULL,
    last_number INTEGER NOT NULL
) STRICT;
INSERT INTO store (one, id, last_number) VALUES (1, randomblob(16), 0);

-- Every instance that ever wrote here; frames and control rows name it by its small number.
-- alive_until is NULL once its lease was ended and its executions were released.
CREATE TABLE instances (
    number INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    alive_until INTEGER,
    fold INTEGER NOT NULL
) STRICT;
CREATE INDEX instances_alive ON instances (alive_until) WHERE alive_until IS NOT NULL;

-- The log. Rowid order is the order of commits, so that a batch of hundreds of executions dirties
-- one page after the other. The parent is not stored: the insert checks it, and since the chain has
-- no gaps it is always the frame before.
CREATE TABLE frames (
    id INTEGER PRIMARY KEY,
    execution INTEGER NOT NULL,
    first_seq INTEGER NOT NULL CHECK (first_seq >= 1),
    last_seq INTEGER NOT NULL CHECK (last_seq >= first_seq),
    append_id BLOB NOT NULL,
    instance INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    decided_at INTEGER NOT NULL,
    at INTEGER NOT NULL,
    requires INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX frames_by_execution ON frames (execution, first_seq);

-- One row for each unfinished execution, written at transitions only. wakes_from: 0 all mail,
-- 1 cancel and resume, 2 resume alone makes it ready.
CREATE TABLE control (
    execution INTEGER PRIMARY KEY,
    owner INTEGER,
    epoch INTEGER NOT NULL,
    next_due INTEGER,
    ready INTEGER NOT NULL CHECK (ready IN (0, 1)),
    held TEXT,
    wakes_from INTEGER NOT NULL CHECK (wakes_from IN (0, 1, 2)),
    requires INTEGER NOT NULL
) STRICT;
CREATE INDEX control_ready ON control (execution) WHERE owner IS NULL AND ready = 1;
CREATE INDEX control_due ON control (next_due, execution)
    WHERE owner IS NULL AND ready = 0 AND next_due IS NOT NULL;

-- Mail, in the order of arrival.
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY,
    execution INTEGER NOT NULL,
    message TEXT NOT NULL,
    actor TEXT,
    urgency INTEGER NOT NULL CHECK (urgency IN (0, 1, 2)),
    body TEXT NOT NULL,
    UNIQUE (execution, message)
) STRICT;

-- The names under which executions are found.
CREATE TABLE submissions (
    execution INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    idempotency TEXT,
    digest BLOB
) STRICT;
CREATE UNIQUE INDEX submissions_by_idempotency ON submissions (idempotency)
    WHERE idempotency IS NOT NULL;

CREATE TABLE definitions (
    hash BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    canonical TEXT NOT NULL,
    PRIMARY KEY (name, version)
) STRICT;

-- The newest state of an execution, a cache. first_seq is that of the frame it came with.
CREATE TABLE snapshots (
    execution INTEGER PRIMARY KEY,
    first_seq INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- For people with an SQL shell: one row for each event.
CREATE VIEW events AS
SELECT frames.execution AS execution,
       frames.first_seq + event.key AS seq,
       frames.at AS at,
       frames.epoch AS epoch,
       kind.key AS type,
       kind.value ->> '$.node' AS node,
       kind.value ->> '$.attempt' AS attempt,
       kind.value AS fields
FROM frames, json_each(CAST(frames.body AS TEXT)) AS event, json_each(event.value) AS kind;
