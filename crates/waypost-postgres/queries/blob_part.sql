-- blobs: a part of a blob. Served by the key of blob_parts.
SELECT body FROM blob_parts WHERE upload = $1 AND n = $2
