-- weigh: bytes of the next frames of the log after place ?1, at most ?2 frames, up to the one that reaches ?3
-- bytes. Served by the key of frames.
SELECT coalesce(sum(bytes), 0) FROM (
    SELECT bytes, sum(bytes) OVER (ORDER BY id) - bytes AS before FROM (
        SELECT id, octet_length(body) AS bytes FROM frames WHERE id > ?1 ORDER BY id LIMIT ?2
    )
)
WHERE before < ?3
