-- repair: stands where the next frame of a log goes, until this transaction ends and takes it away again:
-- whoever appends there waits. Nothing where a frame is there already. Served by the key of frames.
INSERT INTO frames (execution, first_seq, last_seq, place, at, decided_at, epoch, checksum, append_id,
                    instance, requires, body)
VALUES ($1, $2, $2, waypost_place(), 0, 0, 0, 0, $3, $3, 0, '')
ON CONFLICT DO NOTHING
