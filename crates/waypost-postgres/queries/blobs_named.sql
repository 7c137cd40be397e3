-- blob_refs: the blobs that executions name, after one of them. Served by the key of blob_refs.
SELECT DISTINCT r.digest FROM blob_refs AS r WHERE r.digest > $1 ORDER BY r.digest LIMIT $2
