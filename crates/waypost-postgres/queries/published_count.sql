-- publish: how many signals of a topic wait, up to a number; none where this message is one of them. Served by
-- published_by_topic and published_by_message.
SELECT count(*) FROM (
    SELECT FROM published
    WHERE topic = $1 AND NOT taken
      AND NOT EXISTS (SELECT FROM published AS p
                      WHERE sha256(p.topic) = sha256($1) AND sha256(p.message) = sha256($2))
    LIMIT $3) AS p
