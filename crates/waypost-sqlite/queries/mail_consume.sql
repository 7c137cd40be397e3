-- append: a frame consumed a message. Served by the unique key of inbox.
DELETE FROM inbox WHERE execution = ?1 AND message = ?2
