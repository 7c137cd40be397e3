-- load, claim: the newest snapshot of an execution. Served by the key of snapshots.
SELECT first_seq, seq, checksum, body FROM snapshots WHERE execution = ?1
