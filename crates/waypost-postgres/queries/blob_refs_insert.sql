-- append, deliver: executions ($2) name blobs ($1). In one order, so that two writers cannot deadlock. Served
-- by the key of blob_refs.
INSERT INTO blob_refs (digest, execution)
SELECT DISTINCT r.digest, r.execution FROM unnest($1::bytea[], $2::int8[]) AS r (digest, execution)
ORDER BY r.digest, r.execution
ON CONFLICT DO NOTHING
