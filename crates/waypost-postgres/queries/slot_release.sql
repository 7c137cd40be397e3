-- audit: a place is free. Served by the key of slots.
DELETE FROM slots WHERE execution = $1 RETURNING key
