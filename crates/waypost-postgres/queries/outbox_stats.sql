-- outbox_stats. Walks outbox_since, outbox_settled and the endpoints.
SELECT (SELECT count(*) FROM outbox WHERE state = 0),
       (SELECT count(*) FROM outbox WHERE state = 2),
       (SELECT min((SELECT min(o.since) FROM outbox AS o WHERE o.endpoint = e.number AND o.state = 0))
        FROM webhook_endpoints AS e WHERE e.state = 0),
       (SELECT count(*) FROM webhook_endpoints WHERE state = 0),
       (SELECT count(*) FROM webhook_endpoints WHERE state = 0 AND probe_at IS NOT NULL),
       (SELECT count(*) FROM webhook_endpoints WHERE state = 1),
       (SELECT count(*) FROM webhook_endpoints WHERE state = 2),
       (SELECT waypost_now())
