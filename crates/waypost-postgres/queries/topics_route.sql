-- append, publish, claim: the oldest signal of each topic goes to the waits for it that nothing is on its way
-- to. Returns the executions that get it, and the signal. The topics are locked; a wait that closes meanwhile
-- gets nothing, and a signal that nothing gets stays. Served by published_by_topic and subscriptions_by_topic.
WITH next AS MATERIALIZED (
    SELECT DISTINCT ON (p.topic) p.id, p.topic, p.message, p.actor, p.body
    FROM published AS p
    WHERE p.topic = ANY ($1::bytea[]) AND NOT p.taken AND p.expires_at > (SELECT waypost_now())
    ORDER BY p.topic, p.id
), waiting AS MATERIALIZED (
    SELECT s.execution, s.wait, s.which, s.topic FROM subscriptions AS s
    WHERE s.topic = ANY (ARRAY (SELECT n.topic FROM next AS n)) AND s.fed IS NULL
    ORDER BY s.execution, s.wait, s.which
    FOR UPDATE OF s
), fed AS (
    UPDATE subscriptions AS s SET fed = n.message
    FROM waiting AS w JOIN next AS n ON n.topic = w.topic
    WHERE s.execution = w.execution AND s.wait = w.wait AND s.which = w.which
    RETURNING s.execution, n.id
), gone AS (
    DELETE FROM published AS p
    WHERE p.id = ANY (ARRAY (SELECT f.id FROM fed AS f)) AND NOT p.from_outside
), taken AS (
    UPDATE published AS p SET taken = true, body = ''
    WHERE p.id = ANY (ARRAY (SELECT f.id FROM fed AS f)) AND p.from_outside
)
SELECT DISTINCT f.execution, n.topic, n.message, n.actor, n.body
FROM fed AS f JOIN next AS n ON n.id = f.id
ORDER BY f.execution
