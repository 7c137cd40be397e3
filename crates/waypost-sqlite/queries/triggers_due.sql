-- claim_triggers: those that may be claimed, of a kind or of any, without some. Served by triggers_claimable.
SELECT number, workflow, name, kind, version, definition, revision, seq, incarnation, state, reason, cursor,
       next_due, failures, failure, topics, registered_at, last_fired_at, timing, by_definition
FROM triggers
WHERE claimable_at <= ?4 AND (?1 IS NULL OR kind = ?1) AND number NOT IN (SELECT value FROM json_each(?2))
ORDER BY claimable_at, number LIMIT ?3
