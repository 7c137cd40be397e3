-- tasks: of these workers ($1) those that are alive; how long ago each listed its tasks (NULL: it
-- does not), and which of the tokens in question ($2, beside $1) are not in the list. A worker's
-- list does not leave the database. All tokens are compared at once, however many workers there
-- are. Served by the key of workers.
WITH clock AS MATERIALIZED (
    SELECT waypost_now() AS now
), alive AS MATERIALIZED (
    SELECT w.id, w.said_at, w.tasks FROM workers AS w, clock
    WHERE w.id = ANY ($1::uuid[]) AND w.alive_until > clock.now
), missing AS (
    SELECT worker, token FROM unnest($1::uuid[], $2::uuid[]) AS asked (worker, token)
    EXCEPT
    SELECT alive.id, unnest(alive.tasks) FROM alive
), by_worker AS MATERIALIZED (
    SELECT worker, array_agg(token) AS tokens FROM missing GROUP BY worker
)
SELECT alive.id, clock.now - alive.said_at, coalesce(by_worker.tokens, '{}')
FROM alive CROSS JOIN clock LEFT JOIN by_worker ON by_worker.worker = alive.id
