-- inspect: a place is free. Served by the key of permits.
DELETE FROM permits WHERE execution = $1 RETURNING key
