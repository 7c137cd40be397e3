-- Deliveries of awaited messages to endpoints that have been deleted since.
ALTER TABLE outbox_awaited ADD COLUMN delivered INTEGER NOT NULL DEFAULT 0;
ALTER TABLE outbox_awaited ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
