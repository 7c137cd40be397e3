-- publish: how many signals of a topic wait, up to a number; none where this message is one of them. Served by
-- published_by_topic and the unique key of published.
SELECT count(*) FROM (
    SELECT 1 FROM published
    WHERE topic = ?1 AND NOT taken
      AND NOT EXISTS (SELECT 1 FROM published AS p WHERE p.topic = ?1 AND p.message = ?2)
    LIMIT ?3)
