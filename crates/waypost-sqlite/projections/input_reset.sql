-- projector: a repair starts the row of a node anew. Served by the key of input_rows.
DELETE FROM input_rows WHERE execution = ?1 AND path = ?2
