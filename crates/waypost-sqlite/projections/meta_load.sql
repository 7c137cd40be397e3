-- file, lag: the store and the last frame shown.
SELECT store, cursor FROM meta
