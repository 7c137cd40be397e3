-- append, settle_trigger, arrive: an item, unless it is known. Served by the unique index of trigger_fires.
INSERT INTO trigger_fires (trigger, item, label, at, nominal, outcome, reason, execution, open)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8 IS NOT NULL)
ON CONFLICT DO NOTHING
