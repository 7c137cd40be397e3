-- append, find: the execution of a key. Served by the unique key.
SELECT execution FROM submissions WHERE key = ?1
