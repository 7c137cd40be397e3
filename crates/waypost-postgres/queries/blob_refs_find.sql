-- blob_refs: for each of these blobs that an execution names, one such execution. Served by the key of
-- blob_refs.
SELECT d.digest, (SELECT r.execution FROM blob_refs AS r WHERE r.digest = d.digest LIMIT 1) AS execution
FROM unnest($1::bytea[]) AS d (digest)
