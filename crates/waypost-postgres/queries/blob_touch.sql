-- blobs: makes a blob young. Served by the key of blobs.
UPDATE blobs SET touched_at = greatest(touched_at, waypost_now()) WHERE digest = $1
