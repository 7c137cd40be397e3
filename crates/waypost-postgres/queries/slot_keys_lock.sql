-- append, audit: locks the keys that somebody wants slots of, in one order for everybody, and makes them
-- where they are new. Served by slot_keys_by_key.
INSERT INTO slot_keys AS k (key)
SELECT r.key FROM unnest($1::bytea[]) AS r (key)
ORDER BY sha256(r.key)
ON CONFLICT (sha256(key)) DO UPDATE SET key = excluded.key
RETURNING k.id, k.key
