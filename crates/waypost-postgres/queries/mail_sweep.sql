-- claim: as control_wake, for mail after an id, in case a process died between inserting it and
-- making its addressee ready, or between parking and checking for mail. Returns the id up to which
-- everything was checked and is too old for that. Served by the keys of inbox and control.
WITH listening AS MATERIALIZED (
    SELECT c.execution FROM control AS c
    WHERE c.execution = ANY (ARRAY (SELECT DISTINCT i.execution FROM inbox AS i WHERE i.id > $1))
      AND c.owner IS NULL AND NOT c.ready
      AND (SELECT true FROM inbox AS i
           WHERE i.execution = c.execution AND i.urgency >= c.wakes_from
             AND i.id <> ALL (c.deaf_to)
           LIMIT 1)
    ORDER BY c.execution
    FOR UPDATE OF c SKIP LOCKED
), woken AS (
    UPDATE control AS c SET ready = true FROM listening WHERE c.execution = listening.execution
), leftover AS MATERIALIZED (
    -- It came while the last frame of its addressee was under way, which did not see it.
    SELECT i.id FROM inbox AS i
    WHERE i.id > $1 AND (SELECT true FROM control AS c WHERE c.execution = i.execution) IS NULL
    FOR UPDATE OF i SKIP LOCKED
), discarded AS (
    DELETE FROM inbox AS i USING leftover WHERE i.id = leftover.id
)
SELECT coalesce(max(i.id), $1) FROM inbox AS i
WHERE i.id > $1 AND i.at < (SELECT waypost_now()) - 60000
