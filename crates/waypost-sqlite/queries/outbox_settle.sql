-- settle_messages: what became of a message. Served by the key of outbox.
UPDATE outbox SET state = ?2, attempts = ?3, due = coalesce(?4, due), claim = NULL, status = ?5,
    took = ?6, reason = ?7, settled_at = ?8
WHERE place = ?1
