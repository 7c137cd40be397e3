-- claim: topics with a signal and a wait that it could go to, in case a process died between its commit and
-- routing. Served by published_by_topic and subscriptions_by_topic.
SELECT DISTINCT p.topic FROM published AS p
WHERE NOT p.taken AND p.expires_at > (SELECT waypost_now())
  AND (SELECT true FROM subscriptions AS s WHERE s.topic = p.topic AND s.fed IS NULL LIMIT 1)
LIMIT $1
