-- weigh: bytes of everything that load reads of an execution. Served by the keys of snapshots, frames_by_execution
-- and the unique key of inbox.
SELECT coalesce((SELECT octet_length(body) FROM snapshots WHERE execution = ?1), 0)
     + coalesce((SELECT sum(octet_length(body)) FROM frames
                 WHERE execution = ?1 AND first_seq >= coalesce(
                     (SELECT first_seq FROM snapshots WHERE execution = ?1), 0)), 0)
     + coalesce((SELECT sum(octet_length(body)) FROM inbox WHERE execution = ?1), 0)
