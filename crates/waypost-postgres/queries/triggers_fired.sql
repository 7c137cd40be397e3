-- append: triggers that have fired without moving their cursors, unless another one has just written that down.
-- Served by the key of triggers.
UPDATE triggers AS t SET last_fired_at = (SELECT waypost_now())
WHERE t.number IN (SELECT o.number FROM triggers AS o WHERE o.number = ANY ($1::int8[])
                   ORDER BY o.number FOR NO KEY UPDATE SKIP LOCKED)
  AND (t.last_fired_at IS NULL OR t.last_fired_at <= (SELECT waypost_now()) - $2::int8)
