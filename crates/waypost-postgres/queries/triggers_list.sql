-- triggers: a page. Served by the unique index of triggers.
SELECT number, workflow, name, kind, version, definition, revision, seq, incarnation, state, reason, cursor,
       next_due, failures, failure, topics, registered_at, last_fired_at, timing, by_definition
FROM triggers
WHERE (workflow, name) > ($1, $2) AND ($3::bytea IS NULL OR workflow = $3) AND ($4::int2 IS NULL OR kind = $4)
  AND ($5::int2 IS NULL OR state = $5)
ORDER BY workflow, name LIMIT $6
