-- projector: what a silent process ($1) owed before place $2 is shown; its row goes once that is all of it
-- ($3). Not where its row has another version than $5: the process has come back, and may owe more. Gives the
-- next version where there is one. Served by the key of projectors.
WITH gone AS (
    DELETE FROM projectors WHERE id = $1 AND xmin::text = $5 AND $2::int8 >= $3::int8
)
UPDATE projectors SET done = greatest(done, $2::int8), alive_until = waypost_now() + $4::int8
WHERE id = $1 AND xmin::text = $5 AND $2::int8 < $3::int8
RETURNING xmin::text
