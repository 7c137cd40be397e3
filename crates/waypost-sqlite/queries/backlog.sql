-- backlog: unowned executions that are ready, or due at ?1, at most ?2 of each; and since when the first
-- of the latter is due. Served by control_ready and control_due.
SELECT (SELECT count(*) FROM (SELECT 1 FROM control WHERE owner IS NULL AND ready = 1 LIMIT ?2))
       + (SELECT count(*) FROM (SELECT 1 FROM control
                                WHERE owner IS NULL AND ready = 0 AND next_due IS NOT NULL
                                  AND next_due <= ?1 LIMIT ?2)),
       (SELECT min(next_due) FROM control
        WHERE owner IS NULL AND ready = 0 AND next_due IS NOT NULL AND next_due <= ?1)
