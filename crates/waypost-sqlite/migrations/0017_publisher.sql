-- Keys of publishers, who may publish events and nothing else. SQLite cannot change a check: the table is
-- written again.
CREATE TABLE api_keys_with_publishers (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    role TEXT NOT NULL
        CHECK (role IN ('admin', 'operator', 'viewer', 'worker', 'publisher')),
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;
INSERT INTO api_keys_with_publishers (number, id, name, role, digest, created_at, revoked_at)
    SELECT number, id, name, role, digest, created_at, revoked_at FROM api_keys;
DROP TABLE api_keys;
ALTER TABLE api_keys_with_publishers RENAME TO api_keys;
