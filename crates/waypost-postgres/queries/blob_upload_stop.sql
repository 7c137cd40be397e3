-- blobs: nothing is added to this upload any more, if it was last active before this time. Served by the key
-- of blob_uploads.
UPDATE blob_uploads SET at = 0 WHERE upload = $1 AND at < $2
