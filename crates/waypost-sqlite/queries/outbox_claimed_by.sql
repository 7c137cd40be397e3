-- settle_messages: a message that a claim still has. Served by outbox_by_execution.
SELECT place, attempts FROM outbox
WHERE endpoint = ?1 AND execution = ?2 AND seq = ?3 AND mark = ?4 AND claim = ?5 AND state = 0
