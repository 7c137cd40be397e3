-- inspect: how large the logs of executions are. Served by the key of frames.
SELECT w.execution, (SELECT coalesce(sum(octet_length(f.body)), 0)::int8 FROM frames AS f
                     WHERE f.execution = w.execution)
FROM unnest($1::int8[]) AS w (execution)
