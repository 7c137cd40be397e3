-- append: the frame in the place of a rejected one. Served by frames_by_execution.
SELECT append_id, at FROM frames WHERE execution = ?1 AND first_seq = ?2
