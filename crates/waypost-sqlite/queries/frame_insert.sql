-- append: inserts a frame whose parent was found where it should be, unless another frame is there.
-- Not one statement with frame_parent: an INSERT that reads its own table goes through a temporary
-- one, which doubles its cost. The transaction holds the write lock, so nothing comes between.
-- Served by frames_by_execution.
INSERT INTO frames (execution, first_seq, last_seq, append_id, instance, epoch, decided_at, at,
                    requires, checksum, body)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (execution, first_seq) DO NOTHING
