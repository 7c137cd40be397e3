-- change_trigger, settle_trigger: one by its number, for another state or revision. Waits for fires under way.
-- Served by the key of triggers.
SELECT number, workflow, name, kind, version, definition, revision, seq, incarnation, state, reason, cursor,
       next_due, failures, failure, topics, registered_at, last_fired_at, timing, by_definition, waypost_now()
FROM triggers WHERE number = $1 FOR UPDATE
