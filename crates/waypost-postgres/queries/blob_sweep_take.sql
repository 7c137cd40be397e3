-- blob_refs: takes or renews the lease on sweeping for $2 milliseconds, unless another instance holds it.
-- Served by the key of blob_sweep.
UPDATE blob_sweep SET holder = $1, held_until = waypost_now() + $2
WHERE holder = $1 OR held_until <= waypost_now()
