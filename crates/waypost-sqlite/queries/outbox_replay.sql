-- replay_messages: all of a state (?3) or since a time (?4). Served by outbox_by_execution.
UPDATE outbox SET state = 0, attempts = 0, since = ?2, due = ?2, settled_at = NULL
WHERE endpoint = (SELECT number FROM webhook_endpoints WHERE id = ?1)
  AND state > 0 AND (?3 IS NULL OR state = ?3) AND (?4 IS NULL OR at >= ?4)
