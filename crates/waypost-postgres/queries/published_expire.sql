-- claim, publish: signals that are kept no longer, and are for no wait that was there before them. Served by
-- published_expired and subscriptions_by_topic.
DELETE FROM published WHERE id IN (
    SELECT p.id FROM published AS p
    WHERE p.expires_at <= (SELECT waypost_now())
      AND (p.taken OR NOT EXISTS (
          SELECT FROM subscriptions AS s
          WHERE s.topic = p.topic AND s.turn < coalesce(p.turn, s.turn + 1)
            AND s.opened_at <= p.published_at))
    ORDER BY p.expires_at LIMIT $1)
