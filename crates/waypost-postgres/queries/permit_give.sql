-- inspect: an execution holds a permit, whatever the limit says. Served by the key of permits.
UPDATE permits SET holding = true WHERE execution = $1
