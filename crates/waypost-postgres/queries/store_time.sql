-- blobs, triggers: the time by which ages are measured, and what is read was read.
SELECT waypost_now()
