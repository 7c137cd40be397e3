-- feed: the next frames of the log, in the order of commits, with the keys of their executions. Served
-- by the keys of frames, instances and submissions.
SELECT frames.first_seq, frames.last_seq, frames.append_id, instances.id, frames.epoch,
       frames.decided_at, frames.at, frames.requires, frames.checksum, frames.body,
       frames.id, frames.execution, submissions.key
FROM frames
LEFT JOIN instances ON instances.number = frames.instance
LEFT JOIN submissions ON submissions.execution = frames.execution
WHERE frames.id > ?1 ORDER BY frames.id LIMIT ?2
