-- blob_refs: an execution that names a blob. Served by the key of blob_refs.
SELECT execution FROM blob_refs WHERE digest = ?1 LIMIT 1
