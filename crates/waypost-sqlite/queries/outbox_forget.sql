-- trim_outbox: messages that were settled before a time, and that no node waits for: its result counts them.
-- Served by outbox_settled and the key of outbox_awaited.
DELETE FROM outbox WHERE place IN (
    SELECT o.place FROM outbox AS o
    WHERE o.state = ?1 AND o.settled_at < ?2
      AND NOT EXISTS (SELECT 1 FROM outbox_awaited AS a WHERE a.execution = o.execution AND a.seq = o.seq)
    LIMIT ?3
)
