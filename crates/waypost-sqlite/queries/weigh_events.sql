-- weigh: bytes of the frames of an execution from the one that holds seq ?2 on, at most ?3 frames, up to the one
-- that reaches ?4 bytes. Served by frames_by_execution.
SELECT coalesce(sum(bytes), 0) FROM (
    SELECT bytes, sum(bytes) OVER (ORDER BY first_seq) - bytes AS before FROM (
        SELECT first_seq, octet_length(body) AS bytes FROM frames
        WHERE execution = ?1 AND last_seq >= ?2 AND first_seq >= coalesce(
            (SELECT h.first_seq FROM frames AS h WHERE h.execution = ?1 AND h.first_seq <= ?2
             ORDER BY h.first_seq DESC LIMIT 1), 1)
        ORDER BY first_seq LIMIT ?3
    )
)
WHERE before < ?4
