-- repair: a snapshot that is not the state of its log. Served by the key of snapshots.
DELETE FROM snapshots WHERE execution = $1
