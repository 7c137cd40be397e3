-- append, settle_trigger, change_trigger, arrive, claim_groups: one by its number. Served by the key of triggers.
SELECT number, workflow, name, kind, version, definition, revision, seq, incarnation, state, reason, cursor,
       next_due, failures, failure, topics, registered_at, last_fired_at, timing, by_definition
FROM triggers WHERE number = ?1
