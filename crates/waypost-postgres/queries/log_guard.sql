-- repair: occupies the place of a log's next frame until this transaction ends and removes it
-- again: appends wait for it. Inserts nothing if a frame is there already. Served by the key of
-- frames.
INSERT INTO frames (execution, first_seq, last_seq, place, at, decided_at, epoch, checksum, append_id,
                    instance, requires, body)
VALUES ($1, $2, $2, waypost_place(), 0, 0, 0, 0, $3, $3, 0, '')
ON CONFLICT DO NOTHING
