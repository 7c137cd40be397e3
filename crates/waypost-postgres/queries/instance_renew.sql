-- heartbeat: an instance is alive until the lease ($2 ms) expires, or leaves ($2 NULL); reserves
-- numbers ($7) for executions. Returns the log format that all other live instances can read. One
-- statement, so that a late answer cannot come between. Served by the keys of instances and
-- numbers.
WITH clock AS MATERIALIZED (
    SELECT waypost_now() AS now
), renewed AS (
    INSERT INTO instances (id, alive_until, renewed_at, fold, version, address, running)
    SELECT $1, clock.now + $2::int8, clock.now, $3, $4, $5, $6 FROM clock
    ON CONFLICT (id) DO UPDATE SET
        alive_until = excluded.alive_until, renewed_at = excluded.renewed_at, fold = excluded.fold,
        version = excluded.version, address = excluded.address, running = excluded.running
), reserved AS (
    UPDATE numbers SET last = last + $7::int8 WHERE $7::int8 > 0 RETURNING last
)
SELECT clock.now, (SELECT last FROM reserved),
    (SELECT min(i.fold) FROM instances AS i WHERE i.id <> $1 AND i.alive_until > clock.now)
FROM clock
