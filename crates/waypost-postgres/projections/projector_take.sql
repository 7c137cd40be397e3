-- projector: takes on what a process owes that is silent since its lease ended, for as long as $2. Gives the
-- version of its row, by which it is seen whether the process has come back. Scans projectors, which has a row
-- for each process.
UPDATE projectors SET alive_until = waypost_now() + $2
WHERE id = (SELECT id FROM projectors WHERE alive_until < waypost_now() AND id <> $1
            ORDER BY alive_until LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, done, xmin::text
