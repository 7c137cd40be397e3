-- claim: the digests that claimed executions were parked with, for those that may have a copy in
-- the mirror. Served by the keys of control and submissions.
SELECT c.execution, c.state_seq, c.state_digest, s.key
FROM control AS c
CROSS JOIN LATERAL (SELECT o.key FROM submissions AS o WHERE o.execution = c.execution OFFSET 0) AS s
WHERE c.execution = ANY ($1::int8[]) AND c.owner = $2
  AND c.state_digest IS NOT NULL AND c.state_seq IS NOT NULL
