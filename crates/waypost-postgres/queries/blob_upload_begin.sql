-- blobs: an upload begins. Served by the key of blob_uploads.
INSERT INTO blob_uploads (upload, at) VALUES ($1, waypost_now())
