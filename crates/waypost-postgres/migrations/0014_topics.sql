-- Signals by key. Publishing a signal and waiting for it both commit their row and look for the other's
-- after that.

-- Open waits for a signal by its key.
CREATE TABLE subscriptions (
    execution bigint NOT NULL,
    -- The event that opened the wait, and the position of the signal in it.
    wait bigint NOT NULL,
    which integer NOT NULL,
    -- The name of the signal, with its key.
    topic bytea NOT NULL,
    -- The message that is on its way to it.
    fed bytea,
    PRIMARY KEY (execution, wait, which)
);
CREATE INDEX subscriptions_by_topic ON subscriptions (topic);

-- Signals that nothing has waited for yet, and the message ids of those from outside.
CREATE TABLE published (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic bytea NOT NULL,
    message bytea NOT NULL,
    actor bytea,
    -- JSON.
    body bytea NOT NULL,
    expires_at bigint NOT NULL,
    from_outside boolean NOT NULL,
    taken boolean NOT NULL DEFAULT false
);
CREATE UNIQUE INDEX published_by_message ON published (sha256(message));
CREATE INDEX published_by_topic ON published (topic, id) WHERE NOT taken;
CREATE INDEX published_expired ON published (expires_at);
