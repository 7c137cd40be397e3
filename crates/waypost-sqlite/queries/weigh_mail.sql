-- weigh: bytes of the mail of an execution, and ?2 for each row. Served by the unique key of inbox.
SELECT coalesce(sum(octet_length(body) + ?2), 0) FROM inbox WHERE execution = ?1
