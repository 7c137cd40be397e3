-- append: frames with the rows that must be committed together with them. As frames_append;
-- besides:
--   - names are taken before the first frames that need them, so that two submissions of one name
--     do not fail the rest of the batch, and a first frame is inserted only if its submission got
--     its names;
--   - a frame that was decided on mail that is not there is not inserted;
--   - every other row is written only if the frame of its execution was inserted. The test is
--     written so that it becomes a hash table, not a join, which would be quadratic.
-- The places of its frames begin after $40 others of the same transaction.
-- Returns the inserted frames, and then the concurrency keys whose permits were released.
-- Served by the keys of all tables.
WITH missing AS (
    SELECT m.execution FROM unnest($48::int8[], $49::bytea[]) AS m (execution, message)
    WHERE (SELECT true FROM inbox AS i
           WHERE i.execution = m.execution AND sha256(i.message) = sha256(m.message)) IS NULL
), named AS (
    INSERT INTO submissions (execution, key, idempotency, digest)
    SELECT s.execution, s.key, s.idempotency, s.digest
    FROM unnest($14::int8[], $15::bytea[], $16::bytea[], $17::bytea[])
         AS s (execution, key, idempotency, digest)
    WHERE (SELECT true FROM frames AS f WHERE f.execution = s.execution AND f.first_seq = 1) IS NULL
    ORDER BY s.idempotency NULLS FIRST, s.key, s.execution
    ON CONFLICT DO NOTHING
    RETURNING execution
), ins AS (
    INSERT INTO frames (execution, first_seq, last_seq, place, at, decided_at, epoch, checksum,
                        append_id, instance, requires, body)
    SELECT linked.execution, linked.first_seq, linked.last_seq, (SELECT waypost_place()) + $40::int8 + linked.n,
           greatest((SELECT waypost_now()), linked.not_before), linked.decided_at, linked.epoch,
           linked.checksum, linked.append_id, linked.instance, linked.requires, linked.body
    FROM (
        SELECT a.*,
               CASE WHEN a.parent_id IS NULL
                    THEN CASE WHEN a.first_seq = 1
                               AND (NOT a.named
                                    OR (a.execution IN (SELECT execution FROM named)) IS TRUE)
                              THEN -9223372036854775808 END
                    ELSE (SELECT p.at FROM frames AS p
                          WHERE p.execution = a.execution AND p.first_seq = a.parent_seq
                            AND p.last_seq = a.first_seq - 1 AND p.append_id = a.parent_id)
               END AS not_before
        FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::uuid[], $6::uuid[],
                    $7::uuid[], $8::int8[], $9::int8[], $10::int4[], $11::int8[], $12::bytea[],
                    $13::bool[]) WITH ORDINALITY
             AS a (execution, first_seq, last_seq, parent_seq, parent_id, append_id, instance, epoch,
                   decided_at, requires, checksum, body, named, n)
        OFFSET 0
    ) AS linked
    WHERE linked.not_before IS NOT NULL
      AND (linked.execution IN (SELECT execution FROM missing)) IS NOT TRUE
    ORDER BY linked.execution
    ON CONFLICT (execution, first_seq) DO NOTHING
    RETURNING execution, at
), standing AS (
    INSERT INTO control AS c (execution, owner, epoch, next_due, ready, held, wakes_from, requires,
                              state_seq, state_digest, crashes)
    -- A first frame settles nothing: a negative `crashes` is only an instruction to the update.
    SELECT s.execution, s.owner, s.epoch, s.next_due, false, s.held, s.wakes_from, s.requires,
           s.state_seq, s.state_digest, -s.settled
    FROM unnest($18::int8[], $19::uuid[], $20::int8[], $21::int8[], $22::bytea[], $23::int2[],
                $24::int4[], $25::int8[], $26::bytea[], $38::int4[])
         AS s (execution, owner, epoch, next_due, held, wakes_from, requires, state_seq, state_digest,
               settled)
    WHERE (s.execution IN (SELECT execution FROM ins)) IS TRUE
    ORDER BY s.execution
    ON CONFLICT (execution) DO UPDATE SET
        owner = excluded.owner, epoch = greatest(c.epoch, excluded.epoch),
        next_due = excluded.next_due, ready = false, held = excluded.held,
        wakes_from = excluded.wakes_from, requires = greatest(c.requires, excluded.requires),
        state_seq = excluded.state_seq, state_digest = excluded.state_digest, deaf_to = '{}',
        crashes = CASE WHEN excluded.owner IS NULL OR excluded.crashes = -2 THEN 0 ELSE c.crashes END,
        doubt = c.doubt AND excluded.owner IS NOT NULL AND excluded.crashes = 0
), raised AS (
    UPDATE control AS c SET requires = greatest(c.requires, r.requires),
        crashes = CASE WHEN r.settled = 2 THEN 0 ELSE c.crashes END,
        doubt = c.doubt AND r.settled = 0
    FROM unnest($27::int8[], $28::int4[], $39::int4[]) AS r (execution, requires, settled)
    WHERE c.execution = r.execution AND (c.requires < r.requires OR r.settled > 0)
      AND (r.execution IN (SELECT execution FROM ins)) IS TRUE
), ended AS (
    DELETE FROM control AS c
    WHERE c.execution = ANY ($29::int8[]) AND (c.execution IN (SELECT execution FROM ins)) IS TRUE
), released AS (
    DELETE FROM permits AS s
    WHERE s.execution = ANY ($29) AND (s.execution IN (SELECT execution FROM ins)) IS TRUE
    RETURNING s.key
), discarded AS (
    DELETE FROM inbox AS i
    WHERE i.execution = ANY ($29) AND (i.execution IN (SELECT execution FROM ins)) IS TRUE
), consumed AS (
    -- One look-up a message: a plan made while the inbox was empty would walk through it for each.
    DELETE FROM inbox AS i
    WHERE i.id = ANY (ARRAY (
        SELECT (SELECT o.id FROM inbox AS o
                WHERE o.execution = m.execution AND sha256(o.message) = sha256(m.message))
        FROM unnest($30::int8[], $31::bytea[]) AS m (execution, message)
        WHERE (m.execution IN (SELECT execution FROM ins)) IS TRUE
    ))
), forgotten AS (
    DELETE FROM snapshots AS s
    WHERE s.execution = ANY ($32::int8[]) AND (s.execution IN (SELECT execution FROM ins)) IS TRUE
), kept AS (
    INSERT INTO snapshots AS k (execution, first_seq, seq, checksum, body)
    SELECT s.execution, s.first_seq, s.seq, s.checksum, s.body
    FROM unnest($33::int8[], $34::int8[], $35::int8[], $36::int8[], $37::bytea[])
         AS s (execution, first_seq, seq, checksum, body)
    WHERE (s.execution IN (SELECT execution FROM ins)) IS TRUE
    ORDER BY s.execution
    ON CONFLICT (execution) DO UPDATE SET
        first_seq = excluded.first_seq, seq = excluded.seq, checksum = excluded.checksum,
        body = excluded.body
), enqueued AS (
    -- There are few endpoints, and mostly none.
    INSERT INTO outbox (endpoint, execution, seq, mark, kind, at, frame_seq, data, since, due)
    SELECT e.number, m.execution, m.seq, m.mark, m.kind, m.now, m.frame_seq, m.data, m.now, m.now
    FROM (SELECT m.*, (SELECT waypost_now()) AS now
          FROM unnest($41::int8[], $42::int8[], $43::int8[], $44::int2[], $45::int8[], $46::bytea[],
                      $47::bytea[])
               AS m (execution, seq, mark, kind, frame_seq, data, workflow)
          OFFSET 0) AS m,
         webhook_endpoints AS e
    WHERE (e.workflow IS NULL OR e.workflow = m.workflow) AND (e.kinds >> m.kind) & 1 = 1
      AND e.state <> 2 AND (m.execution IN (SELECT execution FROM ins)) IS TRUE
)
SELECT execution, at, NULL::int8 AS key FROM ins
UNION ALL
SELECT NULL, NULL, key FROM released
