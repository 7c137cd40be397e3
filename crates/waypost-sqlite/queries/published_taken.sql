-- append, publish: all have a signal from outside; its message id stays. Served by the key of published.
UPDATE published SET taken = 1, body = '' WHERE id = ?1
