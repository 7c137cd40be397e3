-- append, publish: a signal was taken. Served by the key of published.
DELETE FROM published WHERE id = ?1
