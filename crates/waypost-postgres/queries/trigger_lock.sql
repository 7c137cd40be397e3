-- settle_trigger: one by its number, for a new cursor. Served by the key of triggers.
SELECT number, workflow, name, kind, version, definition, revision, seq, incarnation, state, reason, cursor,
       next_due, failures, failure, topics, registered_at, last_fired_at, timing, by_definition, waypost_now()
FROM triggers WHERE number = $1 FOR NO KEY UPDATE
