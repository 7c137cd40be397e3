-- claim_triggers: takes at most $1 for $2 ms. Served by triggers_claimable.
WITH due AS MATERIALIZED (
    SELECT number, claimable_at FROM triggers
    WHERE claimable_at <= (SELECT waypost_now())
    ORDER BY claimable_at, number LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
), taken AS (
    UPDATE triggers AS t SET claimable_at = (SELECT waypost_now()) + $2::int8
    FROM due WHERE t.number = due.number
    RETURNING t.number, t.workflow, t.name, t.kind, t.version, t.definition, t.revision, t.seq, t.incarnation, t.state,
              t.reason, t.cursor, t.next_due, t.failures, t.failure, t.topics, t.registered_at, t.last_fired_at,
              t.timing, t.by_definition, due.claimable_at AS was
)
SELECT * FROM taken ORDER BY was, number
