-- append: inserts a frame if its parent is where it says (?12 its first seq, ?13 its append id).
-- Served by frames_by_execution, for the parent and for the conflict.
INSERT INTO frames (execution, first_seq, last_seq, append_id, instance, epoch, decided_at, at,
                    requires, checksum, body)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11
WHERE CASE WHEN ?12 IS NULL THEN ?2 = 1
      ELSE (SELECT parent.append_id FROM frames AS parent
            WHERE parent.execution = ?1 AND parent.first_seq = ?12
              AND parent.last_seq = ?2 - 1) = ?13 END
ON CONFLICT (execution, first_seq) DO NOTHING
