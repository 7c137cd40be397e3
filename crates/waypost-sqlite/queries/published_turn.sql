-- append, publish: a signal was given to some of those who wait for it. Served by the key of published.
UPDATE published SET turn = ?2 WHERE id = ?1
