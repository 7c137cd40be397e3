-- append: such a wait is over. Served by the key of subscriptions.
DELETE FROM subscriptions WHERE execution = ?1 AND wait = ?2 AND which = ?3
