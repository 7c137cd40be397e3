-- append: is a message there that a frame was decided on? Served by the unique key of inbox.
SELECT 1 FROM inbox WHERE execution = ?1 AND message = ?2
