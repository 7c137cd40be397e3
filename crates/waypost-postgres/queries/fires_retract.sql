-- append, arrive: items whose frames did not go in, and that did not get into their windows. In the transaction
-- that has inserted them. Served by the key of trigger_fires.
DELETE FROM trigger_fires AS f USING unnest($1::int8[], $2::bytea[]) AS a (trigger, item)
WHERE f.trigger = a.trigger AND f.item = a.item
