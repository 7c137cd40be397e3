-- define: the triggers of a workflow. Waits for fires under way, and later ones wait for the deploy. Served by the
-- unique index of triggers.
SELECT number, workflow, name, kind, version, definition, revision, seq, incarnation, state, reason, cursor,
       next_due, failures, failure, topics, registered_at, last_fired_at, timing, by_definition, waypost_now()
FROM triggers WHERE workflow = $1 ORDER BY number FOR UPDATE
