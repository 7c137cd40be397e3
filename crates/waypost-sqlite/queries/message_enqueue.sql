-- append: a message for each endpoint that subscribes to it. Walks the endpoints, of which there are few.
INSERT INTO outbox (endpoint, execution, seq, mark, kind, at, frame_seq, data, since, due)
SELECT e.number, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?5, ?5
FROM webhook_endpoints AS e
WHERE (e.workflow IS NULL OR e.workflow = ?8) AND (e.kinds >> ?4) & 1 AND e.state <> 2
ORDER BY e.number
