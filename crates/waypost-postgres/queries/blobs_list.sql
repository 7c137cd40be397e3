-- blobs: the blobs after one of them. Served by the key of blobs.
SELECT digest, stored_bytes, touched_at FROM blobs WHERE digest > $1 ORDER BY digest LIMIT $2
