-- change_breaker, after a failure: rows that mean nothing any more, but for those that others have locked.
-- Walks breakers, which has a row for each key that fails.
DELETE FROM breakers WHERE key IN (
    SELECT key FROM breakers WHERE expires_at <= (SELECT waypost_now()) LIMIT 100 FOR UPDATE SKIP LOCKED
)
