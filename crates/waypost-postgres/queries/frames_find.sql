-- append: the frames in the places of those that were not inserted. Served by the key of frames.
SELECT f.execution, f.append_id, f.at
FROM unnest($1::int8[], $2::int8[]) AS a (execution, first_seq)
CROSS JOIN LATERAL (SELECT o.* FROM frames AS o
                    WHERE o.execution = a.execution AND o.first_seq = a.first_seq OFFSET 0) AS f
