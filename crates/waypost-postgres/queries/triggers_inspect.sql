-- inspect: a page of whole rows. Served by the key of triggers.
SELECT number, workflow, name, kind, version, definition, revision, seq, incarnation, state, reason, cursor,
       next_due, failures, failure, topics, registered_at, last_fired_at, timing, by_definition,
       claimable_at
FROM triggers WHERE number > $1 ORDER BY number LIMIT $2
