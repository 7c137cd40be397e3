-- reserve_births, where a tree gets its row: deletes rows of trees that have not grown since ?1 and whose root has
-- ended. Reads all of trees, which has few rows; roots by the keys of submissions and control.
DELETE FROM trees WHERE root IN (
    SELECT t.root FROM trees AS t
    WHERE t.used_at < ?1
      AND NOT EXISTS (SELECT 1 FROM submissions AS s JOIN control AS c ON c.execution = s.execution
                      WHERE s.key = t.root)
    LIMIT ?2
)
