-- append, publish: a signal goes to the waits for its topic that nothing is on its way to, that have not got it
-- yet, and that began before it or while it is kept. Returns their executions. Served by subscriptions_hungry.
UPDATE subscriptions SET fed = ?2, turn = ?3
WHERE topic = ?1 AND fed IS NULL AND turn < ?3 AND opened_at <= ?4
RETURNING execution
