-- open_executions: those that may be unfinished, oldest first, and whether they are. Served by
-- trigger_fires_open and the key of control.
SELECT f.place, f.execution, (SELECT true FROM control AS c WHERE c.execution = f.execution) IS TRUE
FROM trigger_fires AS f WHERE f.trigger = $1 AND f.open AND f.place > $2 ORDER BY f.place LIMIT $3
