-- arrive: items that waited were skipped. Served by the key of trigger_fires.
UPDATE trigger_fires SET outcome = $3, reason = $4 WHERE trigger = $1 AND item = ANY ($2::bytea[])
