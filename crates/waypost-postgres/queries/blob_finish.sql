-- blobs: an upload is complete and becomes the blob of its digest, unless it is being discarded. Known
-- content is made young instead. Returns the upload whose parts are the blob's. Served by the keys of both
-- tables.
WITH own AS (
    SELECT u.upload FROM blob_uploads AS u WHERE u.upload = $2 AND u.at > 0 FOR UPDATE
), known AS (
    INSERT INTO blobs AS b (digest, upload, bytes, stored_bytes, parts, touched_at)
    SELECT $1, own.upload, $3, $4, $5, waypost_now() FROM own
    ON CONFLICT (digest) DO UPDATE SET touched_at = greatest(b.touched_at, excluded.touched_at)
    RETURNING b.upload
), complete AS (
    DELETE FROM blob_uploads AS u USING known WHERE u.upload = $2 AND known.upload = $2
)
SELECT known.upload FROM known
