-- inspect: the rows of one execution are derived again. Served by the key of node_rows.
DELETE FROM node_rows WHERE execution = ?1
