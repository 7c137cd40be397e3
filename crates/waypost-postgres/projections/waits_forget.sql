-- projector: the same for waits. Served by the key of wait_rows.
DELETE FROM wait_rows WHERE execution = ANY($1)
