-- file, lag: the store, and the last frame shown with its time.
SELECT store, cursor, shown_at FROM meta
