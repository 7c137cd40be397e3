-- trim_outbox: the oldest pending messages of an endpoint. Served by outbox_due.
UPDATE outbox SET state = 2, settled_at = ?1, claim = NULL, took = coalesce(took, 0), reason = ?3
WHERE place IN (SELECT place FROM outbox WHERE endpoint = ?2 AND state = 0 ORDER BY place LIMIT ?4)
