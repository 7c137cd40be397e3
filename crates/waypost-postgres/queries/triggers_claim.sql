-- claim_triggers: takes at most $3 for $4 ms, of a kind or of any, without some. Served by triggers_claimable.
WITH due AS MATERIALIZED (
    SELECT number, claimable_at FROM triggers
    WHERE claimable_at <= (SELECT waypost_now()) AND ($1::int2 IS NULL OR kind = $1) AND number <> ALL ($2::int8[])
    ORDER BY claimable_at, number LIMIT $3
    FOR NO KEY UPDATE SKIP LOCKED
), taken AS (
    UPDATE triggers AS t SET claimable_at = (SELECT waypost_now()) + $4::int8
    FROM due WHERE t.number = due.number
    RETURNING t.number, t.workflow, t.name, t.kind, t.version, t.definition, t.revision, t.seq, t.incarnation, t.state,
              t.reason, t.cursor, t.next_due, t.failures, t.failure, t.topics, t.registered_at, t.last_fired_at,
              t.timing, t.by_definition, due.claimable_at AS was
)
SELECT * FROM taken ORDER BY was, number
