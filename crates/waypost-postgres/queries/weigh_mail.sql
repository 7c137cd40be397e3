-- weigh: bytes of the mail of an execution, and $2 for each row. Served by inbox_by_execution.
SELECT coalesce(sum(octet_length(body) + $2::int8), 0)::int8 FROM inbox WHERE execution = $1
