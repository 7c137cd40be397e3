-- append: a signal that was on its way arrived, and a wait for it is still open. Served by the key of
-- subscriptions.
UPDATE subscriptions SET fed = NULL WHERE execution = ?1 AND fed = ?2
