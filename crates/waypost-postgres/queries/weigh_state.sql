-- weigh: bytes of everything that load reads of an execution. Served by the keys of snapshots and frames and by
-- inbox_by_execution.
SELECT (coalesce((SELECT octet_length(s.body) FROM snapshots AS s WHERE s.execution = $1), 0)
      + coalesce((SELECT sum(octet_length(f.body)) FROM frames AS f
                  WHERE f.execution = $1 AND f.first_seq >= coalesce(
                      (SELECT s.first_seq FROM snapshots AS s WHERE s.execution = $1), 0)), 0)
      + coalesce((SELECT sum(octet_length(i.body)) FROM inbox AS i WHERE i.execution = $1), 0))::int8
