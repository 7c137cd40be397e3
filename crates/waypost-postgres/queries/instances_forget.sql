-- claim, now and then: forgets instances that have been gone for $1 ms and own nothing. Scans instances,
-- which are few; served by control_by_owner.
DELETE FROM instances AS i
WHERE coalesce(i.alive_until, i.renewed_at) < waypost_now() - $1::int8
  AND NOT EXISTS (SELECT 1 FROM control AS c WHERE c.owner = i.id)
