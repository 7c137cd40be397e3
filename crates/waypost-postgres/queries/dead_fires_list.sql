-- dead_fires: a page, newest first. Served by the key of dead_fires.
SELECT id, trigger, item, label, at, reason, payload, state FROM dead_fires
WHERE id < $1 AND ($2::int8 IS NULL OR trigger = $2) AND ($3::int2 IS NULL OR state = $3)
  AND ($4::int8 IS NULL OR id = $4)
ORDER BY id DESC LIMIT $5
