-- trigger_stats: counts by kind and state, with those of dead letters and groups. Reads the small table of
-- triggers; served by dead_fires_dead.
SELECT kind, state, count(*), coalesce(sum(state = 0 AND failures > 0), 0), min(next_due),
       (SELECT count(*) FROM dead_fires WHERE state = 0), (SELECT count(*) FROM trigger_groups WHERE events > 0)
FROM triggers GROUP BY kind, state ORDER BY kind, state
