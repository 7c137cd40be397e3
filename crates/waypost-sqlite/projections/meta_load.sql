-- file, lag: the store, and the last projected frame with its time.
SELECT store, cursor, shown_at FROM meta
