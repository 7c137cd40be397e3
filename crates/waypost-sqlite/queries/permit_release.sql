-- append, inspect: an execution ended, and its place is free. Served by the unique key of permits.
DELETE FROM permits WHERE execution = ?1 RETURNING key
