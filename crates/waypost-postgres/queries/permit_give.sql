-- inspect: the rows of executions get permits. Served by the key of permits.
UPDATE permits SET holding = true WHERE execution = ANY ($1::int8[])
