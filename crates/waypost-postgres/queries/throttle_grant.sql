-- arrive, claim_groups: the $2 oldest events of a queue may start, each as a group of its own, which is left to the
-- caller for $6 ms. Served by trigger_pending_of and the key of trigger_pending.
WITH oldest AS MATERIALIZED (
    SELECT id, length(payload) AS bytes FROM trigger_pending WHERE in_group = $1 ORDER BY id LIMIT $2
), made AS (
    INSERT INTO trigger_groups (trigger, key, seq, first_at, last_at, events, bytes, due, claimable_at, closed, role)
    SELECT $3, $4, id, $5, $5, 1, bytes, $5, $5::int8 + $6::int8, true, 2 FROM oldest ORDER BY id
    RETURNING number, seq
), moved AS (
    UPDATE trigger_pending AS p SET in_group = made.number FROM made WHERE p.id = made.seq
    RETURNING p.id, p.label, p.payload
)
SELECT id, label, payload FROM moved ORDER BY id
