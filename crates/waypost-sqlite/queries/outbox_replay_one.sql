-- replay_messages: one. Served by outbox_by_execution.
UPDATE outbox SET state = 0, attempts = 0, since = ?2, due = ?2, settled_at = NULL
WHERE endpoint = (SELECT number FROM webhook_endpoints WHERE id = ?1)
  AND state > 0 AND execution = ?3 AND seq = ?4 AND mark = ?5
