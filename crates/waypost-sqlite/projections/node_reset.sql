-- projector: a repair starts the row of a node anew. Served by the key of node_rows.
DELETE FROM node_rows WHERE execution = ?1 AND path = ?2
