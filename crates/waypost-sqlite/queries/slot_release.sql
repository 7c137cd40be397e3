-- append, audit: an execution ended, and its place is free. Served by the unique key of slots.
DELETE FROM slots WHERE execution = ?1 RETURNING key
