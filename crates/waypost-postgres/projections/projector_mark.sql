-- projector: all of this process is shown before $2, and it is alive. Gives the place before which
-- nothing new can appear. Served by the key of projectors.
INSERT INTO projectors AS p (id, done, alive_until) VALUES ($1, $2, waypost_now() + $3)
ON CONFLICT (id) DO UPDATE SET done = greatest(p.done, excluded.done),
                               alive_until = excluded.alive_until
RETURNING waypost_place_end()
