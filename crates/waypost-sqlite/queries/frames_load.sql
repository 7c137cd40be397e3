-- load, claim, events: the frames of an execution from a seq on. Served by frames_by_execution and
-- the keys of frames and instances.
SELECT frames.first_seq, frames.last_seq, frames.append_id, instances.id, frames.epoch,
       frames.decided_at, frames.at, frames.requires, frames.checksum, frames.body
FROM frames CROSS JOIN instances ON instances.number = frames.instance
WHERE frames.execution = ?1 AND frames.first_seq >= ?2
ORDER BY frames.first_seq
