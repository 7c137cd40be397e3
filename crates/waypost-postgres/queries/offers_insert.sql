-- tasks: offers tasks, oldest first; one that is offered already stays as it is. Served by
-- task_offers_by_attempt.
INSERT INTO task_offers (execution, attempt, offered_at, owner, path, handler, body)
SELECT o.execution, o.attempt, (SELECT waypost_now()), o.owner, o.path, o.handler, o.body
FROM unnest($1::int8[], $2::int8[], $3::uuid[], $4::bytea[], $5::bytea[], $6::bytea[]) WITH ORDINALITY
     AS o (execution, attempt, owner, path, handler, body, n)
ORDER BY o.execution, o.attempt, o.n
ON CONFLICT DO NOTHING
