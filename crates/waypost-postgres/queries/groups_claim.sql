-- claim_groups: takes at most $1 for $2 ms, and closes them; queues of throttles aside. Served by
-- trigger_groups_claimable.
WITH due AS MATERIALIZED (
    SELECT number, claimable_at FROM trigger_groups
    WHERE NOT paused AND claimable_at <= (SELECT waypost_now()) AND role <> 1
    ORDER BY claimable_at, seq LIMIT $1
    FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE trigger_groups AS g SET closed = true, claimable_at = (SELECT waypost_now()) + $2::int8
    FROM due WHERE g.number = due.number
    RETURNING g.number, g.trigger, g.key, g.seq, g.first_at, g.last_at, due.claimable_at AS was
)
SELECT number, trigger, key, seq, first_at, last_at FROM taken ORDER BY was, seq
