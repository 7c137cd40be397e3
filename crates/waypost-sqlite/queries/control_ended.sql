-- append: the execution ended. Served by the key of control.
DELETE FROM control WHERE execution = ?1
