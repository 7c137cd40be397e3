-- file: projections of a store that show nothing yet.
INSERT INTO meta (one, store, cursor) VALUES (1, ?1, 0)
