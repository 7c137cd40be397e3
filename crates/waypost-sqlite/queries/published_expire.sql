-- append, publish: signals that are kept no longer, and are for no wait that was there before them. Served by
-- published_expired and subscriptions_by_topic.
DELETE FROM published WHERE id IN (
    SELECT p.id FROM published AS p
    WHERE p.expires_at <= ?1
      AND (p.taken OR NOT EXISTS (
          SELECT 1 FROM subscriptions AS s
          WHERE s.topic = p.topic AND s.turn < ifnull(p.turn, s.turn + 1)
            AND s.opened_at <= p.published_at))
    ORDER BY p.expires_at LIMIT 100)
