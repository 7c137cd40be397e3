-- load, claim: the newest snapshots. Served by the key of snapshots.
SELECT execution, first_seq, seq, checksum, body FROM snapshots WHERE execution = ANY ($1::int8[])
