-- append, publish: all have a signal that an execution published. Served by the key of published.
DELETE FROM published WHERE id = ?1
