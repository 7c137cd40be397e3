-- append: frames without side rows. The parent is looked up by a scalar sub-select, which no plan
-- can turn into a join; a frame without a parent must be the first. Rows are inserted in the order
-- of executions, so that two writers of the same ones cannot deadlock. The snapshot of this
-- statement cannot have a row that it waited for: frames that were not inserted are looked up by
-- another one. Served by the key of frames.
INSERT INTO frames (execution, first_seq, last_seq, place, at, decided_at, epoch, checksum, append_id,
                    instance, requires, body)
SELECT linked.execution, linked.first_seq, linked.last_seq, (SELECT waypost_place()) + linked.n,
       greatest((SELECT waypost_now()), linked.not_before), linked.decided_at, linked.epoch,
       linked.checksum, linked.append_id, linked.instance, linked.requires, linked.body
FROM (
    SELECT a.*,
           CASE WHEN a.parent_id IS NULL
                THEN CASE WHEN a.first_seq = 1 THEN -9223372036854775808 END
                ELSE (SELECT p.at FROM frames AS p
                      WHERE p.execution = a.execution AND p.first_seq = a.parent_seq
                        AND p.last_seq = a.first_seq - 1 AND p.append_id = a.parent_id)
           END AS not_before
    FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[], $5::uuid[], $6::uuid[], $7::uuid[],
                $8::int8[], $9::int8[], $10::int4[], $11::int8[], $12::bytea[]) WITH ORDINALITY
         AS a (execution, first_seq, last_seq, parent_seq, parent_id, append_id, instance, epoch,
               decided_at, requires, checksum, body, n)
    OFFSET 0
) AS linked
WHERE linked.not_before IS NOT NULL
ORDER BY linked.execution
ON CONFLICT (execution, first_seq) DO NOTHING
RETURNING execution, at
