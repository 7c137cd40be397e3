-- blobs: uploads that were last active before this time, or are being discarded. Scans blob_uploads, which has
-- a row for each upload in progress.
SELECT upload FROM blob_uploads WHERE at < $1
