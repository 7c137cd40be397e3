-- append, inspect: locks the keys of permits that are asked for, in one order for all transactions, and
-- inserts new ones. Served by permit_keys_by_key.
INSERT INTO permit_keys AS k (key)
SELECT r.key FROM unnest($1::bytea[]) AS r (key)
ORDER BY sha256(r.key)
ON CONFLICT (sha256(key)) DO UPDATE SET key = excluded.key
RETURNING k.id, k.key
