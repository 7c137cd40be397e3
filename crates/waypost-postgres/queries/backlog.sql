-- backlog: unowned executions that are ready or due, at most $1 of each; and for how long the first of
-- the latter has been due. Served by control_ready and control_due.
SELECT (SELECT count(*) FROM (SELECT 1 FROM control AS c WHERE c.owner IS NULL AND c.ready
                              LIMIT $1::int8) AS ready)
       + (SELECT count(*) FROM (SELECT 1 FROM control AS c
                                WHERE c.owner IS NULL AND NOT c.ready AND c.next_due IS NOT NULL
                                  AND c.next_due <= (SELECT waypost_now())
                                LIMIT $1::int8) AS due),
       (SELECT (SELECT waypost_now()) - c.next_due FROM control AS c
        WHERE c.owner IS NULL AND NOT c.ready AND c.next_due IS NOT NULL
          AND c.next_due <= (SELECT waypost_now())
        ORDER BY c.next_due LIMIT 1)
