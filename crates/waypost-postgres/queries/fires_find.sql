-- append, fired, arrive: known items, each by its position. Served by the key of trigger_fires.
SELECT f.place, f.item, f.label, f.at, f.nominal, f.outcome, f.reason, f.execution, a.n
FROM unnest($1::int8[], $2::bytea[]) WITH ORDINALITY AS a (trigger, item, n)
CROSS JOIN LATERAL (SELECT o.* FROM trigger_fires AS o
                    WHERE o.trigger = a.trigger AND o.item = a.item OFFSET 0) AS f
