-- claim: $1 becomes the owner of at most $3 executions whose log format is at most $2, and of none
-- but $4 if that is given, nor but those whose number modulo $8 is $9; $5, as a reconciliation, is
-- what the claimer has of them in memory. First the ready, the forgotten and those of dead owners, by
-- number; then those due within $7 ms, by time. Locked rows are skipped. The death of an owner that
-- did not stop in order counts against the executions that it was deciding; an execution with two
-- deaths or more is taken alone, after everything else, if $6 says so. A claimer whose own lease has
-- expired takes nothing. Always returns a row: how many were found, when more is due, whether suspects
-- are left, whether the claimer is alive, and the time.
-- Served by control_ready, control_by_owner, control_due, control_suspects and the key of
-- instances.
WITH RECURSIVE claimer (alive) AS MATERIALIZED (
    SELECT EXISTS (SELECT 1 FROM instances AS i
                   WHERE i.id = $1 AND i.alive_until > (SELECT waypost_now()))
), owners (id) AS (
    (SELECT c.owner FROM control AS c WHERE c.owner IS NOT NULL ORDER BY c.owner LIMIT 1)
    UNION ALL
    -- Leaps from one owner to the next, however much each of them owns.
    SELECT (SELECT c.owner FROM control AS c WHERE c.owner > owners.id ORDER BY c.owner LIMIT 1)
    FROM owners WHERE owners.id IS NOT NULL
), dead AS MATERIALIZED (
    SELECT owners.id,
           NOT EXISTS (SELECT 1 FROM instances AS i
                       WHERE i.id = owners.id AND i.alive_until IS NULL) AS died
    FROM owners
    WHERE (SELECT alive FROM claimer) AND owners.id IS NOT NULL AND owners.id <> $1
      AND NOT EXISTS (SELECT 1 FROM instances AS i
                      WHERE i.id = owners.id AND i.alive_until > (SELECT waypost_now()))
), ready AS MATERIALIZED (
    SELECT c.execution FROM control AS c
    WHERE (SELECT alive FROM claimer)
      AND c.owner IS NULL AND c.ready AND c.requires <= $2 AND c.crashes < 2
      AND ($4::int8[] IS NULL OR c.execution = ANY ($4))
      AND ($8::int8 IS NULL OR c.execution % $8 = $9::int8)
    ORDER BY c.execution LIMIT $3::int8 + 1
    FOR UPDATE SKIP LOCKED
), orphaned AS MATERIALIZED (
    SELECT c.execution FROM dead
    CROSS JOIN LATERAL (SELECT o.execution FROM control AS o
                        WHERE o.owner = dead.id AND o.requires <= $2
                          AND o.crashes + (o.crashes = 1 AND o.doubt AND dead.died)::int < 2
                          AND ($4 IS NULL OR o.execution = ANY ($4))
                          AND ($8 IS NULL OR o.execution % $8 = $9)
                        ORDER BY o.execution LIMIT $3::int8 + 1
                        FOR UPDATE SKIP LOCKED) AS c
), forgotten AS MATERIALIZED (
    SELECT c.execution FROM control AS c
    WHERE (SELECT alive FROM claimer)
      AND $5::int8[] IS NOT NULL AND c.owner = $1 AND c.requires <= $2
      AND ($4 IS NULL OR c.execution = ANY ($4)) AND ($8 IS NULL OR c.execution % $8 = $9)
      -- Written so that it becomes a hash table: a join would compare each row with each.
      AND (c.execution IN (SELECT h.execution FROM unnest($5) AS h (execution))) IS NOT TRUE
    ORDER BY c.execution LIMIT $3::int8 + 1
    FOR UPDATE OF c SKIP LOCKED
), due AS MATERIALIZED (
    SELECT c.execution, c.next_due FROM control AS c
    WHERE (SELECT alive FROM claimer)
      AND c.owner IS NULL AND NOT c.ready AND c.next_due IS NOT NULL
      AND c.next_due <= (SELECT waypost_now()) + $7::int8
      AND c.requires <= $2 AND c.crashes < 2 AND ($4 IS NULL OR c.execution = ANY ($4))
      AND ($8 IS NULL OR c.execution % $8 = $9)
    ORDER BY c.next_due, c.execution LIMIT $3::int8 + 1
    FOR UPDATE SKIP LOCKED
), suspects AS MATERIALIZED (
    -- Two: the second shows whether there are more than the one that may be taken.
    SELECT c.execution, c.crashes FROM control AS c
    WHERE (SELECT alive FROM claimer)
      AND c.crashes >= 1 AND c.requires <= $2 AND ($4 IS NULL OR c.execution = ANY ($4))
      AND ($8 IS NULL OR c.execution % $8 = $9)
      AND CASE WHEN c.owner IS NULL
               THEN c.crashes >= 2 AND (c.ready OR c.next_due <= (SELECT waypost_now()) + $7)
               ELSE (SELECT c.crashes + (c.doubt AND dead.died)::int >= 2
                     FROM dead WHERE dead.id = c.owner)
          END
    ORDER BY c.crashes, c.execution LIMIT 2
    FOR UPDATE OF c SKIP LOCKED
), found AS MATERIALIZED (
    SELECT execution, NULL::int8 AS next_due FROM ready
    UNION ALL SELECT execution, NULL FROM orphaned
    UNION ALL SELECT execution, NULL FROM forgotten
    UNION ALL SELECT execution, next_due FROM due
), chosen AS MATERIALIZED (
    (SELECT execution, row_number() OVER (ORDER BY next_due NULLS FIRST, execution) AS n
     FROM found ORDER BY n LIMIT $3::int8)
    UNION ALL
    (SELECT execution, 9223372036854775807 FROM suspects
     WHERE $6::bool ORDER BY crashes, execution LIMIT 1)
), taken AS (
    UPDATE control AS c SET
        epoch = CASE WHEN c.owner = $1 THEN c.epoch ELSE c.epoch + 1 END, owner = $1, ready = false,
        crashes = c.crashes + ((c.crashes = 0 OR c.doubt)
                               AND (c.owner IN (SELECT id FROM dead WHERE died)) IS TRUE)::int,
        doubt = c.crashes > 0 OR (c.owner IN (SELECT id FROM dead WHERE died)) IS TRUE
    FROM chosen WHERE c.execution = chosen.execution
    RETURNING c.execution, chosen.n
)
SELECT taken.execution, (SELECT count(*) FROM found),
       (SELECT c.next_due FROM control AS c
        WHERE c.owner IS NULL AND NOT c.ready AND c.next_due IS NOT NULL
          AND c.next_due > (SELECT waypost_now()) + $7
          AND c.requires <= $2 AND ($4 IS NULL OR c.execution = ANY ($4))
          AND ($8 IS NULL OR c.execution % $8 = $9)
        ORDER BY c.next_due, c.execution LIMIT 1),
       (SELECT count(*) FROM suspects) > $6::bool::int, (SELECT alive FROM claimer),
       (SELECT waypost_now())
FROM (SELECT 1) AS always LEFT JOIN taken ON true
ORDER BY taken.n
