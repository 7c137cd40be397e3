-- trigger: one by its names. Served by the unique index of triggers.
SELECT number, workflow, name, kind, version, definition, revision, seq, incarnation, state, reason, cursor,
       next_due, failures, failure, topics, registered_at, last_fired_at, timing, by_definition
FROM triggers WHERE workflow = $1 AND name = $2
