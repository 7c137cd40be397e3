-- audit: an execution holds a slot, whatever the limit says. Served by the key of slots.
UPDATE slots SET holding = true WHERE execution = $1
