-- trim_triggers: deletes items that are older than $1 ms, whose executions are not unfinished and whose triggers are
-- not paused or broken (these may have fired a part of a page that they read again), and dead letters that are older
-- than $2 ms; of each at most $3. Served by trigger_fires_old, dead_fires_old and the keys of control and triggers.
WITH clock AS MATERIALIZED (
    SELECT waypost_now() AS now
), items AS (
    DELETE FROM trigger_fires WHERE ctid = ANY (ARRAY (
        SELECT f.ctid FROM trigger_fires AS f
        WHERE f.at < (SELECT now FROM clock) - $1::int8
          AND NOT (f.open AND (SELECT true FROM control AS c WHERE c.execution = f.execution) IS TRUE)
          AND (SELECT true FROM triggers AS t WHERE t.number = f.trigger AND t.state IN (1, 2)) IS NOT TRUE
        LIMIT $3 FOR UPDATE SKIP LOCKED
    ))
    RETURNING 1
), letters AS (
    DELETE FROM dead_fires WHERE id = ANY (ARRAY (
        SELECT d.id FROM dead_fires AS d WHERE d.at < (SELECT now FROM clock) - $2::int8
        LIMIT $3 FOR UPDATE SKIP LOCKED
    ))
    RETURNING 1
)
SELECT (SELECT count(*) FROM items) + (SELECT count(*) FROM letters)
