-- Circuit breakers that are not closed, or had a failure of late. What the state means is decided in code.
CREATE TABLE breakers (
    key TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    -- From when on the row means nothing.
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX breakers_expired ON breakers (expires_at);
