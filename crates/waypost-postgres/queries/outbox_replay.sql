-- replay_messages: settled ones of a state ($3) or since a time ($4). Served by outbox_by_execution.
UPDATE outbox SET state = 0, attempts = 0, since = $2, due = $2, settled_at = NULL
WHERE endpoint = $1 AND state > 0 AND ($3::int2 IS NULL OR state = $3) AND ($4::int8 IS NULL OR at >= $4)
