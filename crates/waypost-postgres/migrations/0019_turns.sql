-- A signal by key that only some of those who wait for it could get yet stays for the others.

-- When the wait began; and the turn of the last signal that it got, or that was given before it began.
ALTER TABLE subscriptions ADD COLUMN opened_at bigint NOT NULL DEFAULT 0;
ALTER TABLE subscriptions ADD COLUMN turn bigint NOT NULL DEFAULT 0;
DROP INDEX subscriptions_by_topic;
CREATE INDEX subscriptions_by_topic ON subscriptions (topic, turn);
CREATE INDEX subscriptions_hungry ON subscriptions (topic) WHERE fed IS NULL;

-- The turn of a signal is its place among those of its topic that were given to a wait. It has one while other
-- waits, which began before that, have not got it yet.
ALTER TABLE published ADD COLUMN published_at bigint NOT NULL DEFAULT 0;
ALTER TABLE published ADD COLUMN turn bigint;
DROP INDEX published_by_message;
CREATE UNIQUE INDEX published_by_message ON published (sha256(topic), sha256(message));
DROP INDEX published_by_topic;
CREATE INDEX published_by_topic ON published (topic, turn, id) WHERE NOT taken;
