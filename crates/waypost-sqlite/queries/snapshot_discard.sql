-- append: the execution ended. Served by the key of snapshots.
DELETE FROM snapshots WHERE execution = ?1
