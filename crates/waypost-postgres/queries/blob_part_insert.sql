-- blobs: the next part of an upload, unless it is being discarded. Served by the keys of both tables.
WITH active AS (
    UPDATE blob_uploads SET at = waypost_now() WHERE upload = $1 AND at > 0 RETURNING upload
)
INSERT INTO blob_parts (upload, n, body) SELECT active.upload, $2, $3 FROM active
