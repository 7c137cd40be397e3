-- publish: how many signals of a topic wait, up to a number. Served by published_by_topic.
SELECT count(*) FROM (SELECT FROM published WHERE topic = $1 AND NOT taken LIMIT $2) AS p
