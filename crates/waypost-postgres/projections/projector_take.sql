-- projector: takes on what a process owes that is silent since its lease ended, for as long as $2. Scans
-- projectors, which has a row for each process.
UPDATE projectors SET alive_until = waypost_now() + $2
WHERE id = (SELECT id FROM projectors WHERE alive_until < waypost_now() AND id <> $1
            ORDER BY alive_until LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, done
