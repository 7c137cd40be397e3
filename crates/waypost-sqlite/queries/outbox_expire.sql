-- trim_outbox: messages that are pending since before a time. Served by outbox_since.
UPDATE outbox SET state = 2, settled_at = ?1, claim = NULL, took = coalesce(took, 0), reason = ?3
WHERE place IN (SELECT place FROM outbox WHERE state = 0 AND since < ?2 LIMIT ?4)
