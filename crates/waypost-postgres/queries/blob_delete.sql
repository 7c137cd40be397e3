-- blobs: deletes a blob that is old. Its parts become those of an upload that is being discarded, since they
-- may be too many for one statement. Served by the keys of both tables.
WITH gone AS (
    DELETE FROM blobs WHERE digest = $1 AND touched_at < $2 RETURNING upload
)
INSERT INTO blob_uploads (upload, at) SELECT gone.upload, 0 FROM gone RETURNING upload
