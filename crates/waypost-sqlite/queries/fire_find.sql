-- append, fired: a known item. Served by the unique index of trigger_fires.
SELECT place, item, label, at, nominal, outcome, reason, execution FROM trigger_fires WHERE trigger = ?1 AND item = ?2
