-- settle_trigger, arrive: items that start nothing, unless they are known. Returns those that were new. Served by the
-- key of trigger_fires.
INSERT INTO trigger_fires (trigger, item, label, at, nominal, outcome, reason, open)
SELECT a.trigger, a.item, a.label, (SELECT waypost_now()), a.nominal, a.outcome, a.reason, false
FROM unnest($1::int8[], $2::bytea[], $3::bytea[], $4::int8[], $5::int2[], $6::bytea[]) WITH ORDINALITY
     AS a (trigger, item, label, nominal, outcome, reason, n)
ORDER BY a.n
ON CONFLICT DO NOTHING
RETURNING trigger, item
