-- projector: the same for nodes. Served by the key of node_rows.
DELETE FROM node_rows WHERE execution = ANY($1)
