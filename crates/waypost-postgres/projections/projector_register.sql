-- projections: this process will append; nothing of it is owed from before `done`, which is now, or for one
-- whose row was taken away because it was silent for too long, what it knew last ($3). Served by the key
-- of projectors.
INSERT INTO projectors (id, done, alive_until)
VALUES ($1, coalesce($3, waypost_place_end()), waypost_now() + $2)
ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until
RETURNING done
