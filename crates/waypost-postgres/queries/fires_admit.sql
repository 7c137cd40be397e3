-- append: takes the items of fires ($1 to $7, and the groups that they empty, $8 and $9) whose triggers are active,
-- at their revision and, where they move the cursor ($6), at their seq. $10: the triggers whose cursor moves; $11:
-- the others; $12 and $13: the groups. Locks are taken in this order, by number; the rows that they return are those
-- of now, also where the statement had to wait. Returns the executions whose fires were taken; and then the
-- triggers whose last fire was written down more than $14 ms ago. The tests are written so that they become hash
-- tables, not joins. Served by the keys of triggers and trigger_fires and by trigger_groups_of.
WITH moving AS MATERIALIZED (
    SELECT t.number, t.revision, t.seq, t.state, t.last_fired_at FROM triggers AS t
    WHERE t.number = ANY ($10::int8[]) ORDER BY t.number FOR NO KEY UPDATE
), standing AS MATERIALIZED (
    SELECT t.number, t.revision, t.seq, t.state, t.last_fired_at FROM triggers AS t
    WHERE t.number = ANY ($11::int8[]) ORDER BY t.number FOR KEY SHARE
), locked AS MATERIALIZED (
    SELECT * FROM moving UNION ALL SELECT * FROM standing
), emptied AS MATERIALIZED (
    SELECT g.trigger, g.seq, g.key FROM trigger_groups AS g
    WHERE g.trigger = ANY ($12::int8[]) AND g.seq = ANY ($13::int8[])
    ORDER BY g.number FOR UPDATE
), taken AS (
    INSERT INTO trigger_fires (trigger, item, label, at, nominal, outcome, execution, open)
    SELECT a.trigger, a.item, a.label, (SELECT waypost_now()), a.nominal, 0, a.execution, true
    FROM unnest($1::int8[], $2::bytea[], $3::bytea[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[],
                $9::bytea[])
         AS a (trigger, item, label, nominal, revision, seq, execution, group_seq, group_key)
    WHERE ((a.trigger, a.revision) IN (SELECT number, revision FROM locked WHERE state = 0)) IS TRUE
      AND (a.seq IS NULL OR ((a.trigger, a.seq) IN (SELECT number, seq FROM moving)) IS TRUE)
      AND (a.group_seq IS NULL
           OR ((a.trigger, a.group_seq, a.group_key) IN (SELECT trigger, seq, key FROM emptied)) IS TRUE)
    ORDER BY a.trigger, a.item
    ON CONFLICT DO NOTHING
    RETURNING execution
)
SELECT execution, NULL::int8 AS trigger FROM taken
UNION ALL
SELECT NULL, number FROM locked
WHERE last_fired_at IS NULL OR last_fired_at <= (SELECT waypost_now()) - $14::int8
