-- append, inspect: the row of an execution gets a permit. Served by the unique key of permits.
UPDATE permits SET holding = 1 WHERE execution = ?1
