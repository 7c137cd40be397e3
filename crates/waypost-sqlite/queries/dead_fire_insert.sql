-- settle_trigger, define: a dead letter.
INSERT INTO dead_fires (trigger, item, label, at, reason, payload, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)
