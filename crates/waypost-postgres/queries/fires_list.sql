-- fires: a page of the history of a trigger, newest first. Served by trigger_fires_listed.
SELECT place, item, label, at, nominal, outcome, reason, execution FROM trigger_fires
WHERE trigger = $1 AND place < $2 AND ($3::int2 IS NULL OR outcome = $3)
ORDER BY place DESC LIMIT $4
