-- claim_groups: some by their numbers. Served by the key of triggers.
SELECT number, workflow, name, kind, version, definition, revision, seq, incarnation, state, reason, cursor,
       next_due, failures, failure, topics, registered_at, last_fired_at, timing, by_definition
FROM triggers WHERE number = ANY ($1::int8[])
