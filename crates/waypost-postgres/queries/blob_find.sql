-- blobs: a blob without its content. Served by the key of blobs.
SELECT upload, bytes, stored_bytes, touched_at, parts FROM blobs WHERE digest = $1
