-- append: what stands where a frame was refused. Served by frames_by_execution.
SELECT append_id, at FROM frames WHERE execution = ?1 AND first_seq = ?2
