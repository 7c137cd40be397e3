-- add_endpoint: waits for the appends under way, which may write messages, and holds up later ones until the
-- endpoint is committed. So every frame is either committed before the endpoint or matched against it. An
-- append sees the endpoints of its statement's beginning, and without this lock would miss one that is
-- committed while it waits for a row.
LOCK TABLE outbox IN SHARE MODE
