-- deliver: mail that came when its addressee had ended, but for what a sweep discards just now. Served by
-- inbox_by_execution and the key of inbox.
WITH leftover AS MATERIALIZED (
    SELECT i.id FROM inbox AS i
    WHERE i.execution = ANY ($1::int8[])
      AND (SELECT true FROM control AS c WHERE c.execution = i.execution) IS NULL
    FOR UPDATE OF i SKIP LOCKED
)
DELETE FROM inbox AS i USING leftover WHERE i.id = leftover.id
