-- arrive: an event.
INSERT INTO trigger_pending (in_group, item, label, payload) VALUES ($1, $2, $3, $4) RETURNING id
