-- define: a trigger that was not known.
INSERT INTO triggers (workflow, name, kind, version, definition, revision, seq, incarnation, state, reason, cursor,
                      next_due, failures, failure, topics, registered_at, last_fired_at, timing, by_definition,
                      claimable_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, waypost_now(), NULL, $16, $17, $12)
RETURNING number
