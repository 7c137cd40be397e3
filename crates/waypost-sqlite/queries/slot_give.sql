-- append, audit: an execution comes to hold a slot. Served by the unique key of slots.
UPDATE slots SET holding = 1 WHERE execution = ?1
