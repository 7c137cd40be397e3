-- sweeper: takes or renews the lease for $2 milliseconds, unless another process holds it. Returns
-- whether this process ($1) holds it now. Served by the key of sweeper.
WITH claimed AS (
    UPDATE sweeper SET holder = $1, held_until = waypost_now() + $2
    WHERE holder = $1 OR held_until < waypost_now()
    RETURNING one
)
SELECT EXISTS (SELECT FROM claimed)
