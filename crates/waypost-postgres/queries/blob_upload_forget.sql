-- blobs: a discarded upload has no parts left. Served by the key of blob_uploads.
DELETE FROM blob_uploads WHERE upload = $1 AND at = 0
