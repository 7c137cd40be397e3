-- claim_messages: instance $4 claims messages until their new due times ($2), or puts them off until then (claim
-- NULL). Served by the key of outbox.
UPDATE outbox AS o SET claim = t.claim, due = t.due, claimer = $4::uuid
FROM unnest($1::int8[], $2::int8[], $3::uuid[]) AS t (place, due, claim)
WHERE o.place = t.place
