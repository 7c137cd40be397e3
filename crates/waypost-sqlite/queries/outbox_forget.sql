-- trim_outbox: messages that were settled before a time. Served by outbox_settled.
DELETE FROM outbox WHERE place IN (
    SELECT place FROM outbox WHERE state = ?1 AND settled_at < ?2 LIMIT ?3
)
