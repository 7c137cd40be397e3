-- claim: topics with a signal and a wait that it could go to, in case a process died between its commit and
-- routing. Served by published_by_topic and subscriptions_hungry.
SELECT DISTINCT s.topic FROM subscriptions AS s
WHERE s.fed IS NULL
  AND EXISTS (
      SELECT FROM published AS p
      WHERE p.topic = s.topic AND NOT p.taken AND s.turn < coalesce(p.turn, s.turn + 1)
        AND (p.expires_at > (SELECT waypost_now()) OR s.opened_at <= p.published_at))
LIMIT $1
