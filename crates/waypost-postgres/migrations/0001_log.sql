-- The log and the rows beside it. Times are milliseconds since 1970.
--
-- Text that comes from people is bytea, UTF-8: PostgreSQL's text cannot hold U+0000, its order hangs on
-- a collation, and a batch must never fail for either. Where such text is unique, its sha256 is what the
-- index holds, since a row of a B-tree has at most 2,704 bytes.

-- The time. A session can have it stand still, for tests.
CREATE FUNCTION waypost_now() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT coalesce(nullif(current_setting('waypost.now', true), '')::bigint,
                    floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;

-- One row: what this store is; the key that its instances share; and what is added to the places of
-- frames, which is raised where a copy of this database begins to count its transactions anew.
CREATE TABLE cluster (
    one integer PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    key bytea NOT NULL CHECK (length(key) = 32),
    place_base bigint NOT NULL DEFAULT 0
);
INSERT INTO cluster (key) VALUES (
    sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
);

-- Where a frame stands among all: the transaction that wrote it, then its position in that one. A
-- reader who stops before the oldest transaction that still runs never has to go back.
CREATE FUNCTION waypost_place() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT place_base + (pg_current_xact_id()::text::bigint << 16) FROM cluster
$$;
CREATE FUNCTION waypost_place_end() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT place_base + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 16) FROM cluster
$$;

-- One row: the last number set aside for an execution. Apart from `cluster`, since it is written often.
CREATE TABLE numbers (
    one integer PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    last bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO numbers (last) VALUES (0);

-- Every instance that ever announced itself. alive_until is NULL once it has left.
CREATE TABLE instances (
    id uuid PRIMARY KEY,
    alive_until bigint,
    renewed_at bigint NOT NULL,
    running bigint NOT NULL,
    fold integer NOT NULL,
    version bytea NOT NULL,
    address bytea
) WITH (fillfactor = 50);

-- The log. The parent is not stored: the insert checks it, and since the chain has no gaps it is always
-- the frame before. `place` orders the frames of all executions (see waypost_place).
CREATE TABLE frames (
    execution bigint NOT NULL,
    first_seq bigint NOT NULL CHECK (first_seq >= 1),
    last_seq bigint NOT NULL,
    place bigint NOT NULL,
    at bigint NOT NULL,
    decided_at bigint NOT NULL,
    epoch bigint NOT NULL,
    checksum bigint NOT NULL,
    append_id uuid NOT NULL,
    instance uuid NOT NULL,
    requires integer NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (execution, first_seq),
    CHECK (last_seq >= first_seq)
);
CREATE UNIQUE INDEX frames_by_place ON frames (place);

-- One row for each unfinished execution, written at transitions only. wakes_from: 0 all mail, 1 cancel
-- and resume, 2 resume alone makes it ready. deaf_to: mail that was there when it was set aside.
-- state_digest: of the state after the frame that ends at state_seq.
CREATE TABLE control (
    execution bigint PRIMARY KEY,
    owner uuid,
    epoch bigint NOT NULL,
    next_due bigint,
    state_seq bigint,
    requires integer NOT NULL,
    wakes_from smallint NOT NULL CHECK (wakes_from IN (0, 1, 2)),
    ready boolean NOT NULL,
    held bytea,
    state_digest bytea,
    deaf_to bigint[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 70);
CREATE INDEX control_ready ON control (execution) WHERE owner IS NULL AND ready;
CREATE INDEX control_due ON control (next_due, execution)
    WHERE owner IS NULL AND NOT ready AND next_due IS NOT NULL;
CREATE INDEX control_by_owner ON control (owner, execution) WHERE owner IS NOT NULL;

-- Mail; ids are in the order of arrival for each sender.
CREATE TABLE inbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    execution bigint NOT NULL,
    at bigint NOT NULL,
    urgency smallint NOT NULL CHECK (urgency IN (0, 1, 2)),
    message bytea NOT NULL,
    actor bytea,
    body bytea NOT NULL
);
CREATE UNIQUE INDEX inbox_by_execution ON inbox (execution, sha256(message));

-- The names under which executions are found.
CREATE TABLE submissions (
    execution bigint PRIMARY KEY,
    key bytea NOT NULL,
    idempotency bytea,
    digest bytea
);
CREATE UNIQUE INDEX submissions_by_key ON submissions (sha256(key));
CREATE UNIQUE INDEX submissions_by_idempotency ON submissions (sha256(idempotency))
    WHERE idempotency IS NOT NULL;

-- The newest state of an execution, a cache. first_seq is that of the frame it came with. The bytes are
-- not compressed a second time.
CREATE TABLE snapshots (
    execution bigint PRIMARY KEY,
    first_seq bigint NOT NULL,
    seq bigint NOT NULL,
    checksum bigint NOT NULL,
    body bytea NOT NULL
);

-- Keys that executions line up for. Whoever gives tickets of a key locks its row.
CREATE TABLE slot_keys (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key bytea NOT NULL,
    last_ticket bigint NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX slot_keys_by_key ON slot_keys (sha256(key));

-- A place in the line of a key: one for each unfinished execution that has a key. Tickets are given in
-- the order of commits. most: how many may hold a slot at once, as the execution's definition says.
-- superseded: was it sent a cancellation for the sake of a newcomer?
CREATE TABLE slots (
    execution bigint PRIMARY KEY,
    key bigint NOT NULL,
    ticket bigint NOT NULL,
    most bigint NOT NULL CHECK (most >= 1),
    holding boolean NOT NULL,
    superseded boolean NOT NULL
);
CREATE UNIQUE INDEX slots_by_key ON slots (key, ticket);
CREATE INDEX slots_holding ON slots (key) WHERE holding;
CREATE INDEX slots_waiting ON slots (key, ticket) WHERE NOT holding;

-- Versions of workflows.
CREATE TABLE definitions (
    hash bytea PRIMARY KEY CHECK (length(hash) = 32),
    name bytea NOT NULL,
    version bigint NOT NULL,
    created_at bigint NOT NULL,
    canonical bytea NOT NULL,
    UNIQUE (name, version)
);

-- Keys in the order in which they were added. Secrets are not here: their digests are.
CREATE TABLE api_keys (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id bytea NOT NULL,
    name bytea NOT NULL,
    role text NOT NULL CHECK (role IN ('admin', 'operator', 'viewer', 'worker')),
    digest bytea NOT NULL CHECK (length(digest) = 32),
    created_at bigint NOT NULL,
    revoked_at bigint
);
CREATE UNIQUE INDEX api_keys_by_id ON api_keys (sha256(id));

-- What was done or tried, in the order in which it was recorded. status: that of the HTTP answer.
CREATE TABLE trail (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    actor bytea NOT NULL,
    address bytea NOT NULL,
    action bytea NOT NULL,
    subject bytea,
    status integer NOT NULL
);
CREATE INDEX trail_by_actor ON trail (sha256(actor), id);

-- Tasks that wait for workers. Hints: their owners offer again what was lost, so that these tables need
-- not survive a crash and are spared the write-ahead log.
CREATE UNLOGGED TABLE task_offers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    execution bigint NOT NULL,
    attempt bigint NOT NULL,
    offered_at bigint NOT NULL,
    owner uuid NOT NULL,
    path bytea NOT NULL,
    handler bytea NOT NULL,
    body bytea NOT NULL
);
CREATE UNIQUE INDEX task_offers_by_attempt ON task_offers (execution, attempt, sha256(path));
CREATE INDEX task_offers_by_handler ON task_offers (sha256(handler), id);

-- Workers by their last sign of life; alive_until is NULL for those that have left, tasks (the tokens of
-- what they have in hand) and said_at for those that do not say.
CREATE UNLOGGED TABLE workers (
    id uuid PRIMARY KEY,
    through uuid NOT NULL,
    seen_at bigint NOT NULL,
    alive_until bigint,
    capacity bigint NOT NULL,
    running bigint NOT NULL,
    name bytea NOT NULL,
    handlers bytea[] NOT NULL,
    tasks uuid[],
    said_at bigint,
    CHECK ((tasks IS NULL) = (said_at IS NULL))
) WITH (fillfactor = 50);

-- Attempts that a worker is to stop and has not heard of.
CREATE UNLOGGED TABLE task_cancels (
    worker uuid NOT NULL,
    token uuid NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (worker, token)
);
CREATE INDEX task_cancels_by_time ON task_cancels (at);

-- For people with an SQL shell: one row for each event. A body that PostgreSQL cannot take for JSON
-- fails the query that asks for it.
CREATE VIEW events AS
SELECT frames.execution AS execution,
       frames.first_seq + event.n - 1 AS seq,
       frames.at AS at,
       frames.epoch AS epoch,
       kind.key AS type,
       kind.value ->> 'node' AS node,
       kind.value ->> 'attempt' AS attempt,
       kind.value AS fields
FROM frames,
     json_array_elements(convert_from(frames.body, 'UTF8')::json) WITH ORDINALITY AS event (body, n),
     json_each(event.body) AS kind;
