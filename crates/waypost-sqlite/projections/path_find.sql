-- projector: the number of a path. Served by the unique key of paths.
SELECT id FROM paths WHERE path = ?1
