-- append: the execution ended. Served by the unique key of inbox.
DELETE FROM inbox WHERE execution = ?1
