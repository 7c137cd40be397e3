-- append, inspect: an execution leaves its queue. Served by the unique key of permits.
DELETE FROM permits WHERE execution = ?1 RETURNING key
