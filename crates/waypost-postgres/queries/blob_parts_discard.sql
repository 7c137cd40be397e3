-- blobs: deletes the parts of a discarded upload up to this one. Served by the key of blob_parts.
DELETE FROM blob_parts
WHERE upload = $1 AND n <= (SELECT min(p.n) + $2 FROM blob_parts AS p WHERE p.upload = $1)
