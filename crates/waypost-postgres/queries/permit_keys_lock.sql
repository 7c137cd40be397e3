-- append, inspect: locks the keys that somebody wants permits of, in one order for everybody, and makes them
-- where they are new. Served by permit_keys_by_key.
INSERT INTO permit_keys AS k (key)
SELECT r.key FROM unnest($1::bytea[]) AS r (key)
ORDER BY sha256(r.key)
ON CONFLICT (sha256(key)) DO UPDATE SET key = excluded.key
RETURNING k.id, k.key
