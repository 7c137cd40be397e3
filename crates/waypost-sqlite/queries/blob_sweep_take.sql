-- blob_refs: takes or renews the lease on sweeping until ?2, unless another instance holds it at ?3.
-- Served by the key of blob_sweep.
UPDATE blob_sweep SET holder = ?1, held_until = ?2
WHERE one = 1 AND (holder = ?1 OR held_until <= ?3)
