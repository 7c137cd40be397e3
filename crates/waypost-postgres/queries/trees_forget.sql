-- reserve_births, where a tree gets its row: deletes rows of trees that have not grown for $1 milliseconds and
-- whose root has ended. Reads all of trees, which has few rows; roots by submissions_by_key and the key of control.
DELETE FROM trees WHERE root IN (
    SELECT t.root FROM trees AS t
    WHERE t.used_at < waypost_now() - $1
      AND NOT EXISTS (SELECT 1 FROM submissions AS s JOIN control AS c ON c.execution = s.execution
                      WHERE sha256(s.key) = sha256(t.root))
    LIMIT $2 FOR UPDATE SKIP LOCKED
)
