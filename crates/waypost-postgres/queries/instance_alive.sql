-- is_alive: does this instance's lease last? Served by the key of instances.
SELECT coalesce((SELECT i.alive_until > waypost_now() FROM instances AS i WHERE i.id = $1), false)
