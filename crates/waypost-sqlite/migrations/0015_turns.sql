-- A signal by key that only some of those who wait for it could get yet stays for the others.

-- When the wait began; and the turn of the last signal that it got, or that was given before it began.
ALTER TABLE subscriptions ADD COLUMN opened_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE subscriptions ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
DROP INDEX subscriptions_by_topic;
CREATE INDEX subscriptions_by_topic ON subscriptions (topic, turn);
CREATE INDEX subscriptions_hungry ON subscriptions (topic) WHERE fed IS NULL;

-- As before, with a message id for each topic, the time of the signal, and its turn: its place among those of its
-- topic that were given to a wait. It has one while other waits, which began before that, have not got it yet.
ALTER TABLE published RENAME TO published_before;
DROP INDEX published_by_topic;
DROP INDEX published_expired;
CREATE TABLE published (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    topic TEXT NOT NULL,
    message TEXT NOT NULL,
    actor TEXT,
    -- JSON.
    body TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    from_outside INTEGER NOT NULL,
    taken INTEGER NOT NULL DEFAULT 0,
    published_at INTEGER NOT NULL DEFAULT 0,
    turn INTEGER,
    UNIQUE (topic, message)
) STRICT;
INSERT INTO published (id, topic, message, actor, body, expires_at, from_outside, taken)
SELECT id, topic, message, actor, body, expires_at, from_outside, taken FROM published_before;
DROP TABLE published_before;
CREATE INDEX published_by_topic ON published (topic, turn, id) WHERE NOT taken;
CREATE INDEX published_expired ON published (expires_at);
