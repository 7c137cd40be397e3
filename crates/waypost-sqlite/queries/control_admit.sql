-- append, inspect: who holds a permit has something to do. Served by the key of control.
UPDATE control SET ready = 1, held = NULL, wakes_from = 0 WHERE execution = ?1 AND owner IS NULL
