-- append: keeps the newest snapshot of an execution. Served by the key of snapshots.
INSERT INTO snapshots (execution, first_seq, seq, checksum, body) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (execution) DO UPDATE SET first_seq = excluded.first_seq, seq = excluded.seq,
    checksum = excluded.checksum, body = excluded.body
