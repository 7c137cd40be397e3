-- blobs: the time by which ages are measured.
SELECT waypost_now()
