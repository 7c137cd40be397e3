-- Deliveries of awaited messages to endpoints that have been deleted since.
ALTER TABLE outbox_awaited
    ADD COLUMN delivered bigint NOT NULL DEFAULT 0,
    ADD COLUMN failed bigint NOT NULL DEFAULT 0;
