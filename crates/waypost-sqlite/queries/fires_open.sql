-- open_executions: those that may be unfinished, oldest first, and whether they are. Served by
-- trigger_fires_open and the key of control.
SELECT place, execution, EXISTS (SELECT 1 FROM control AS c WHERE c.execution = f.execution)
FROM trigger_fires AS f WHERE trigger = ?1 AND open AND place > ?2 ORDER BY place LIMIT ?3
