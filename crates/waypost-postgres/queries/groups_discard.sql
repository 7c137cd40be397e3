-- define: the events of all groups of a trigger become dead letters, and its groups go. Served by trigger_groups_of,
-- trigger_pending_of and the key of trigger_fires.
WITH gone AS (
    DELETE FROM trigger_groups WHERE trigger = $1 RETURNING number
), events AS (
    DELETE FROM trigger_pending AS p USING gone WHERE p.in_group = gone.number
    RETURNING p.id, p.item, p.label, p.payload
), dead AS (
    UPDATE trigger_fires AS f SET outcome = $2, reason = $3
    FROM events WHERE f.trigger = $1 AND f.item = events.item
)
INSERT INTO dead_fires (trigger, item, label, at, reason, payload)
SELECT $1, item, label, (SELECT waypost_now()), $3, payload FROM events ORDER BY id
