-- claim_triggers: those that may be claimed. Served by triggers_claimable.
SELECT number, workflow, name, kind, version, definition, revision, seq, incarnation, state, reason, cursor,
       next_due, failures, failure, topics, registered_at, last_fired_at, timing, by_definition
FROM triggers WHERE claimable_at <= ?1 ORDER BY claimable_at, number LIMIT ?2
