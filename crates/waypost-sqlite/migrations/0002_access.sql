-- Who may do what, and who did; and since when definitions are kept.

-- Keys in the order in which they were added. Secrets are not here: their digests are.
CREATE TABLE api_keys (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('admin', 'operator', 'viewer', 'worker')),
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

-- What was done or tried, in the order in which it was recorded. status: that of the HTTP answer.
CREATE TABLE trail (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    address TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT,
    status INTEGER NOT NULL
) STRICT;
CREATE INDEX trail_by_actor ON trail (actor, id);

-- NULL for those that were kept before this layout. The index holds all that lists show, so that they
-- read no contents, which can be large.
ALTER TABLE definitions ADD COLUMN created_at INTEGER;
CREATE INDEX definitions_listed ON definitions (name, version, hash, created_at);
