-- Circuit breakers that are not closed, or had a failure of late. What the state means is decided in code.
CREATE TABLE breakers (
    key bytea PRIMARY KEY,
    -- JSON.
    state bytea NOT NULL,
    -- From when on the row means nothing.
    expires_at bigint NOT NULL
) WITH (fillfactor = 50);
