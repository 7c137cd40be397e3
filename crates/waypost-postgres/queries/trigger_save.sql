-- settle_trigger, change_trigger, define: what has changed of a trigger; its claim ends. Served by the key of
-- triggers.
UPDATE triggers
SET kind = $2, version = $3, definition = $4, revision = $5, seq = $6, incarnation = $7, state = $8, reason = $9,
    cursor = $10, next_due = $11, failures = $12, failure = $13, topics = $14, timing = $15, by_definition = $16,
    claimable_at = $11
WHERE number = $1
