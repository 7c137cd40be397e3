-- blob_refs: the blobs that executions name, after one of them. Served by the key of blob_refs.
SELECT DISTINCT digest FROM blob_refs WHERE digest > ?1 ORDER BY digest LIMIT ?2
