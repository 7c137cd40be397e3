-- Signals by key.

-- Open waits for a signal by its key.
CREATE TABLE subscriptions (
    execution INTEGER NOT NULL,
    -- The event that opened the wait, and the position of the signal in it.
    wait INTEGER NOT NULL,
    which INTEGER NOT NULL,
    -- The name of the signal, with its key.
    topic TEXT NOT NULL,
    -- The message that is on its way to it.
    fed TEXT,
    PRIMARY KEY (execution, wait, which)
) STRICT, WITHOUT ROWID;
CREATE INDEX subscriptions_by_topic ON subscriptions (topic);

-- Signals that nothing has waited for yet, and the message ids of those from outside.
CREATE TABLE published (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    topic TEXT NOT NULL,
    message TEXT NOT NULL UNIQUE,
    actor TEXT,
    -- JSON.
    body TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    from_outside INTEGER NOT NULL,
    taken INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX published_by_topic ON published (topic, id) WHERE NOT taken;
CREATE INDEX published_expired ON published (expires_at);
