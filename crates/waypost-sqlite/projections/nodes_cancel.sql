-- projector: the execution ends, and with it its nodes that are PENDING. ?2 counts from its creation. Served by the key of node_rows.
UPDATE node_rows SET status = 8, updated_at = ?2 WHERE execution = ?1 AND status = 0
